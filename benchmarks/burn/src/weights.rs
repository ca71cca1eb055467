//! Weights and outputs as files: safetensors in Burn's or torch's layout, and Burn's own `.bpk`.

use std::collections::HashMap;
use std::path::Path;

use burn::store::{
    BurnToPyTorchAdapter, ModuleSnapshot, PyTorchToBurnAdapter, SafetensorsStore,
};
use safetensors::tensor::{Dtype, TensorView};

use crate::networks::{CLASSES, Network};

/// The network with the weights of a file: `.bpk`, or safetensors in the layout `burn` or `torch`.
pub fn load<N: Network>(mut network: N, path: &Path, layout: &str) -> N {
    if path.extension().is_some_and(|extension| extension == "bpk") {
        return network.load_file(path);
    }
    let store = SafetensorsStore::from_file(path);
    let mut store = match layout {
        "torch" => store.with_from_adapter(PyTorchToBurnAdapter),
        _ => store,
    };
    let result = network.load_from(&mut store).expect("the weights should fit the network");
    assert!(result.missing.is_empty() && result.errors.is_empty(), "{result}");
    network
}

/// Writes the weights; the same formats as `load`.
pub fn save<N: Network>(network: &N, path: &Path, layout: &str) {
    if path.extension().is_some_and(|extension| extension == "bpk") {
        return network.clone().save_file(path).expect("the file should be writable");
    }
    let store = SafetensorsStore::from_file(path).overwrite(true);
    let mut store = match layout {
        "torch" => store.with_to_adapter(BurnToPyTorchAdapter),
        _ => store,
    };
    network.save_into(&mut store).expect("the file should be writable");
}

/// Writes one float32 tensor `logits`, of rows of 10.
pub fn save_logits(logits: &[f32], path: &Path) {
    let bytes: Vec<u8> = logits.iter().flat_map(|x| x.to_le_bytes()).collect();
    let shape = vec![logits.len() / CLASSES, CLASSES];
    let view = TensorView::new(Dtype::F32, shape, &bytes).expect("rows of classes");
    let tensors = HashMap::from([("logits", view)]);
    safetensors::serialize_to_file(&tensors, None::<HashMap<String, String>>, path)
        .expect("the file should be writable");
}
