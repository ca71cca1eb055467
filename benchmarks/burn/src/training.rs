//! The timed training: a loop of one's own, and Burn's learner with metrics and checkpoints.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use burn::data::dataloader::DataLoader;
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::Device;
use burn::train::logger::{EvaluationProgressLogger, TrainingProgressLogger};
use burn::train::metric::{AccuracyMetric, LossMetric, MetricDefinition};
use burn::train::renderer::{
    EvaluationName, MetricState, MetricsRenderer, MetricsRendererEvaluation,
    MetricsRendererTraining,
};
use burn::train::{Learner, SupervisedTraining};

use crate::images::Batch;
use crate::networks::{Network, classify};

type Loader = Arc<dyn DataLoader<Batch>>;

/// The epsilon of torch's Adam; Burn's default is 1e-5.
fn adam() -> ModuleOptimizer {
    AdamConfig::new().with_epsilon(1e-8).init().into()
}

/// A network after some epochs of a plain loop, the seconds it took, and the losses if `with_losses`.
pub fn by_hand<N: Network>(
    mut network: N,
    train: &Loader,
    epochs: usize,
    lr: f64,
    with_losses: bool,
) -> (N, f64, Vec<f32>) {
    let mut optimizer = adam();
    let mut losses = Vec::new();
    let started = Instant::now();
    for _ in 0..epochs {
        for batch in train.iter() {
            let item = classify(&network, batch.expect("images are in memory"));
            let gradients = GradientsParams::from_grads(item.loss.backward(), &network);
            network = optimizer.step(lr, network, gradients);
            if with_losses {
                losses.push(item.loss.into_scalar());
            }
        }
    }
    (network, started.elapsed().as_secs_f64(), losses)
}

/// The seconds of Burn's learner: loss and accuracy of both sets, and checkpoints.
pub fn by_learner<N: Network>(
    network: N,
    loaders: (&Loader, &Loader),
    epochs: usize,
    lr: f64,
    folder: &Path,
) -> f64 {
    let (train, valid) = (loaders.0.clone(), loaders.1.clone());
    let started = Instant::now();
    let training = SupervisedTraining::new(folder, train, valid)
        .metrics((AccuracyMetric::new(), LossMetric::new()))
        .with_default_checkpointers()
        .renderer(Box::new(Silent))
        .num_epochs(epochs);
    let result = training.launch(Learner::new(network, adam(), lr));
    assert!(result.error.is_none(), "{:?}", result.error);
    started.elapsed().as_secs_f64()
}

/// The logits [images, 10] of a set, row by row.
pub fn logits<N: Network>(network: &N, loader: &Loader, device: &Device) -> Vec<f32> {
    let network = network.clone().valid().to_device(device);
    loader
        .iter()
        .flat_map(|batch| {
            let logits = network.logits(batch.expect("images are in memory").images);
            logits.into_data().try_to_vec::<f32>().expect("logits are float32")
        })
        .collect()
}

/// Draws nothing: Burn's own renderer for pipes prints a line for every batch.
struct Silent;

impl MetricsRendererTraining for Silent {
    fn update_train(&mut self, _: MetricState) {}
    fn update_valid(&mut self, _: MetricState) {}
}

impl MetricsRendererEvaluation for Silent {
    fn update_test(&mut self, _: EvaluationName, _: MetricState) {}
}

impl TrainingProgressLogger for Silent {
    fn start(&mut self, _: usize, _: usize, _: Option<usize>, _: Option<&str>) {}
    fn update_epoch(&mut self, _: usize) {}
    fn start_split(&mut self, _: &str, _: usize) {}
    fn update_split(&mut self, _: usize) {}
    fn end_split(&mut self) {}
    fn end(&mut self) {}
    fn log_event_training(&mut self, _: String) {}
}

impl EvaluationProgressLogger for Silent {
    fn start_global_progress(&mut self, _: usize) {}
    fn start_test(&mut self, _: &str, _: usize) {}
    fn update_test_progress(&mut self, _: usize) {}
    fn end_test(&mut self) {}
    fn end_global_progress(&mut self) {}
    fn log_event_evaluation(&mut self, _: String) {}
}

impl MetricsRenderer for Silent {
    fn manual_close(&mut self) {}
    fn register_metric(&mut self, _: MetricDefinition) {}
}
