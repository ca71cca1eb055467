//! Images and labels from a safetensors file, and batches of them.

use std::path::Path;
use std::sync::Arc;

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::data::dataset::{Dataset, DatasetError};
use burn::tensor::{Device, Int, Tensor, TensorData};
use safetensors::SafeTensors;

pub const SIDE: usize = 28;
const PIXELS: usize = SIDE * SIDE;

/// Normalised images [batch, 1, 28, 28] and their classes [batch].
#[derive(Clone, Debug)]
pub struct Batch {
    pub images: Tensor<4>,
    pub targets: Tensor<1, Int>,
}

/// One image of a set, by its place: the batcher reads the pixels where they are.
#[derive(Clone, Debug)]
pub struct Sample {
    place: usize,
}

/// Pixels as bytes and the class of each image.
#[derive(Debug)]
pub struct Images {
    pixels: Vec<u8>,
    targets: Vec<i64>,
}

#[derive(Clone)]
pub struct ImageSet(Arc<Images>);

#[derive(Clone)]
struct ImageBatcher {
    images: Arc<Images>,
    mean: f32,
    scale: f32,
}

impl ImageSet {
    /// The tensors `<split>_images` (uint8) and `<split>_targets` (int64) of a file.
    pub fn read(path: &Path, split: &str) -> Self {
        let content = std::fs::read(path).expect("the file of images should be readable");
        let tensors = SafeTensors::deserialize(&content).expect("should be safetensors");
        let bytes = |name: String| tensors.tensor(&name).expect("should have the split").data();
        let targets = bytes(format!("{split}_targets"))
            .chunks_exact(8)
            .map(|each| i64::from_le_bytes(each.try_into().unwrap()))
            .collect();
        Self(Arc::new(Images {
            pixels: bytes(format!("{split}_images")).to_vec(),
            targets,
        }))
    }

    /// Batches, in the order of the file without `shuffle`; pixels become (x / 255 - mean) / std.
    pub fn loader(
        &self,
        batch_size: usize,
        shuffle: Option<u64>,
        workers: usize,
        normalisation: (f32, f32),
        device: &Device,
    ) -> Arc<dyn DataLoader<Batch>> {
        let batcher = ImageBatcher {
            images: self.0.clone(),
            mean: 255.0 * normalisation.0,
            scale: 1.0 / (255.0 * normalisation.1),
        };
        let builder = DataLoaderBuilder::new(batcher)
            .batch_size(batch_size)
            .num_workers(workers)
            .set_device(device.clone());
        match shuffle {
            Some(seed) => builder.shuffle(seed).build(self.clone()),
            None => builder.build(self.clone()),
        }
    }
}

impl Dataset<Sample> for ImageSet {
    fn get(&self, place: usize) -> Result<Sample, DatasetError> {
        Ok(Sample { place })
    }

    fn len(&self) -> usize {
        self.0.targets.len()
    }
}

impl Batcher<Sample, Batch> for ImageBatcher {
    fn batch(&self, samples: Vec<Sample>, device: &Device) -> Batch {
        let mut images = Vec::with_capacity(samples.len() * PIXELS);
        for sample in &samples {
            let pixels = &self.images.pixels[sample.place * PIXELS..][..PIXELS];
            images.extend(pixels.iter().map(|&x| (f32::from(x) - self.mean) * self.scale));
        }
        let targets: Vec<i64> = samples.iter().map(|s| self.images.targets[s.place]).collect();
        let shape = [samples.len(), 1, SIDE, SIDE];
        Batch {
            images: Tensor::from_data(TensorData::new(images, shape), device),
            targets: Tensor::from_data(TensorData::new(targets, [samples.len()]), device),
        }
    }
}
