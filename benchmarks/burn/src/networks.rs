//! The two networks of the comparison, with the layers of `andiron.models.ConvNet` and `MLP`.

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::pool::{AdaptiveAvgPool2d, AdaptiveAvgPool2dConfig};
use burn::nn::{Dropout, DropoutConfig, Linear, LinearConfig, Relu};
use burn::tensor::{Device, Tensor};
use burn::train::{ClassificationOutput, InferenceStep, TrainOutput, TrainStep};

use crate::images::{Batch, SIDE};

pub const CLASSES: usize = 10;

/// What the comparison asks of a network: logits [batch, classes] of images [batch, 1, 28, 28].
pub trait Network:
    Module
    + TrainStep<Input = Batch, Output = ClassificationOutput>
    + InferenceStep<Input = Batch, Output = ClassificationOutput>
    + std::fmt::Display
    + 'static
{
    fn create(dropout: f64, device: &Device) -> Self;
    fn logits(&self, images: Tensor<4>) -> Tensor<2>;
}

/// Linear layers 784-512-256-10 with ReLU between them.
#[derive(Module, Debug)]
pub struct Mlp {
    first: Linear,
    second: Linear,
    last: Linear,
    relu: Relu,
}

/// The network of the Burn book's guide: two 3x3 convolutions, average pool, two linear layers.
#[derive(Module, Debug)]
pub struct ConvNet {
    conv1: Conv2d,
    conv2: Conv2d,
    pool: AdaptiveAvgPool2d,
    dropout: Dropout,
    linear1: Linear,
    linear2: Linear,
    relu: Relu,
}

impl Network for Mlp {
    fn create(_dropout: f64, device: &Device) -> Self {
        Self {
            first: LinearConfig::new(SIDE * SIDE, 512).init(device),
            second: LinearConfig::new(512, 256).init(device),
            last: LinearConfig::new(256, CLASSES).init(device),
            relu: Relu::new(),
        }
    }

    fn logits(&self, images: Tensor<4>) -> Tensor<2> {
        let hidden = self.relu.forward(self.first.forward(images.flatten(1, 3)));
        self.last.forward(self.relu.forward(self.second.forward(hidden)))
    }
}

impl Network for ConvNet {
    fn create(dropout: f64, device: &Device) -> Self {
        Self {
            conv1: Conv2dConfig::new([1, 8], [3, 3]).init(device),
            conv2: Conv2dConfig::new([8, 16], [3, 3]).init(device),
            pool: AdaptiveAvgPool2dConfig::new([8, 8]).init(),
            dropout: DropoutConfig::new(dropout).init(),
            linear1: LinearConfig::new(16 * 8 * 8, 512).init(device),
            linear2: LinearConfig::new(512, CLASSES).init(device),
            relu: Relu::new(),
        }
    }

    fn logits(&self, images: Tensor<4>) -> Tensor<2> {
        let features = self.dropout.forward(self.conv1.forward(images));
        let features = self.dropout.forward(self.conv2.forward(features));
        let features = self.pool.forward(self.relu.forward(features)).flatten(1, 3);
        let hidden = self.dropout.forward(self.linear1.forward(features));
        self.linear2.forward(self.relu.forward(hidden))
    }
}

/// The loss of a batch, with the logits and targets that metrics need.
pub fn classify(network: &impl Network, batch: Batch) -> ClassificationOutput {
    let logits = network.logits(batch.images);
    let loss = CrossEntropyLossConfig::new()
        .init(&logits.device())
        .forward(logits.clone(), batch.targets.clone());
    ClassificationOutput::new(loss, logits, batch.targets)
}

// the two step traits are Burn's, so that one implementation for all networks is not allowed here
macro_rules! steps {
    ($network:ty) => {
        impl TrainStep for $network {
            type Input = Batch;
            type Output = ClassificationOutput;

            fn step(&self, batch: Batch) -> TrainOutput<ClassificationOutput> {
                let item = classify(self, batch);
                TrainOutput::new(self, item.loss.backward(), item)
            }
        }

        impl InferenceStep for $network {
            type Input = Batch;
            type Output = ClassificationOutput;

            fn step(&self, batch: Batch) -> ClassificationOutput {
                classify(self, batch)
            }
        }
    };
}

steps!(Mlp);
steps!(ConvNet);
