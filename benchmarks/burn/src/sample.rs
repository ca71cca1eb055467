//! A network of a few hundred bytes, whose files are the assets of Andiron's tests.

use std::path::Path;

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig, LayerNorm, LayerNormConfig, Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Int, Tensor};

#[derive(Module, Debug)]
struct Sample {
    conv: Conv2d,
    norm: BatchNorm,
    linear: Linear,
    last: LayerNorm,
}

impl Sample {
    fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let features = self.norm.forward(self.conv.forward(images));
        self.last.forward(self.linear.forward(features.flatten(1, 3)))
    }
}

/// Writes `sample.bpk` and `sample_adam.bpk` after three updates; the outputs of the trained network
/// in evaluation, for two images of 3x3 with the values 0/9, 1/9, ..., 17/9.
pub fn write(folder: &Path) -> Vec<f32> {
    let device = Device::flex().autodiff();
    device.seed(7);
    let mut network = Sample {
        conv: Conv2dConfig::new([1, 2], [2, 2]).init(&device),
        norm: BatchNormConfig::new(2).init(&device),
        linear: LinearConfig::new(8, 3).init(&device),
        last: LayerNormConfig::new(3).init(&device),
    };
    let mut optimizer: ModuleOptimizer = AdamConfig::new().init().into();
    for _ in 0..3 {
        let outputs = network.forward(images(&device));
        let loss = (outputs.clone() * outputs.clone() * outputs).mean();
        let gradients = GradientsParams::from_grads(loss.backward(), &network);
        network = optimizer.step(0.1, network, gradients);
    }
    optimizer.save(folder.join("sample_adam.bpk")).expect("the folder should be writable");
    let network = network.valid();
    let outputs = network.forward(images(&Device::flex()));
    network.save_file(folder.join("sample.bpk")).expect("the folder should be writable");
    outputs.into_data().try_to_vec::<f32>().expect("outputs are float32")
}

fn images(device: &Device) -> Tensor<4> {
    Tensor::<1, Int>::arange(0..18, device).float().div_scalar(9.0).reshape([2, 1, 3, 3])
}
