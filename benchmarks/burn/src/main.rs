//! Burn's side of the comparison: reads one JSON request a line, answers each with one JSON line.
//!
//! `compare.py` starts this program once and sends the requests; it keeps networks and loaders warm,
//! and times only the training itself.

mod images;
mod networks;
mod sample;
mod training;
mod weights;

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use serde_json::{Value, json};

use images::ImageSet;
use networks::{ConvNet, Mlp, Network};

fn main() {
    let stdin = std::io::stdin();
    for line in stdin.lock().lines() {
        let request: Value = serde_json::from_str(&line.unwrap()).expect("should be JSON");
        let answer = match text(&request, "network") {
            "sample" => json!({ "outputs": sample::write(&path(&request, "folder")) }),
            "mlp" => answered::<Mlp>(&request),
            "convnet" => answered::<ConvNet>(&request),
            other => panic!("network is {other:?}; choose mlp, convnet or sample"),
        };
        println!("{answer}");
        std::io::stdout().flush().unwrap();
    }
}

/// The answer to a request: `do` is `loop`, `learner`, `losses` or `outputs`.
fn answered<N: Network>(request: &Value) -> Value {
    let device = device(text(request, "backend"));
    let training_device = device.clone().autodiff();
    let number = |name: &str| request[name].as_f64().unwrap_or_else(|| panic!("no number {name}"));
    let size = |name: &str| number(name) as usize;
    let data = path(request, "data");
    let normalisation = (number("mean") as f32, number("std") as f32);
    let loader = |split: &str, shuffle: Option<u64>, device: &Device| {
        let images = ImageSet::read(&data, split);
        images.loader(size("batch_size"), shuffle, size("workers"), normalisation, device)
    };
    let loaded = |device: &Device| {
        let network = N::create(number("dropout"), device);
        match request["load"].as_str() {
            Some(file) => weights::load(network, Path::new(file), text(request, "layout")),
            None => network,
        }
    };
    let (epochs, lr) = (size("epochs"), number("lr"));
    match text(request, "do") {
        "loop" => {
            let train = loader("train", Some(42), &training_device);
            let (_, seconds, _) = training::by_hand(loaded(&training_device), &train, epochs, lr, false);
            json!({ "seconds": seconds })
        }
        "losses" => {
            let train = loader("train", None, &training_device);
            let (_, _, losses) = training::by_hand(loaded(&training_device), &train, epochs, lr, true);
            json!({ "losses": losses })
        }
        "learner" => {
            let train = loader("train", Some(42), &training_device);
            let valid = loader("valid", None, &device);
            let network = loaded(&training_device);
            let folder = path(request, "folder");
            let seconds = training::by_learner(network, (&train, &valid), epochs, lr, &folder);
            json!({ "seconds": seconds })
        }
        "outputs" => {
            let network = loaded(&training_device);
            if let Some(file) = request["save"].as_str() {
                weights::save(&network, Path::new(file), text(request, "layout"));
            }
            let logits = training::logits(&network, &loader("valid", None, &device), &device);
            weights::save_logits(&logits, &path(request, "logits"));
            json!({ "images": logits.len() / networks::CLASSES })
        }
        other => panic!("do is {other:?}; choose loop, losses, learner or outputs"),
    }
}

#[allow(deprecated)] // Burn calls its ndarray backend deprecated since 0.22
fn device(backend: &str) -> Device {
    match backend {
        "flex" => Device::flex(),
        "ndarray" => Device::ndarray(),
        other => panic!("backend is {other:?}; choose flex or ndarray"),
    }
}

fn text<'a>(request: &'a Value, name: &str) -> &'a str {
    request[name].as_str().unwrap_or_else(|| panic!("no text {name} in the request"))
}

fn path(request: &Value, name: &str) -> PathBuf {
    PathBuf::from(text(request, name))
}
