//! Models of a program's own, by name.

use brasa::models::{ModelSpec, Task, add};
use brasa::nn::{Init, Linear, Module, Variables};
use brasa::runtime::Var;
use brasa::train::{Config, Control, ModelName, Predictor, Trainer};
use brasa::{Device, Tensor};

/// One linear layer, with what may be wrong of it.
struct Own {
    layer: Linear,
    twice: bool,
    hidden: bool,
}

impl Variables for Own {
    fn visit(&self, visitor: &mut dyn FnMut(&Var)) {
        if !self.hidden {
            self.layer.visit(visitor);
        }
        if self.twice {
            visitor(&Var::state("layer.weight", &Tensor::zeros([1], &Device::cpu())).expect("memory"));
        }
    }
}

impl Module for Own {
    fn forward(&self, input: &Tensor) -> Tensor {
        self.layer.forward(&input.flatten(1, -1))
    }
}

#[test]
fn a_model_of_ones_own_is_trained_resumed_and_asked_by_its_name() {
    let make = |outputs: fn(usize) -> usize, twice: bool, hidden: bool| {
        move |spec: &ModelSpec, init: &Init| {
            let inputs = spec.input.iter().product();
            let layer = Linear::new(inputs, outputs(spec.classes), &init.at("layer"))?;
            Ok(Box::new(Own { layer, twice, hidden }) as Box<dyn Module>)
        }
    };
    add("own-layer", "a linear layer", Task::Classify, make(|classes| classes, false, false)).expect("a new name");
    let out = tempfile::tempdir().expect("a folder");
    let config = |model: &str, epochs: usize| Config {
        model: ModelName::new(model).expect("it was added"),
        epochs,
        device: Some("cpu".into()),
        out: out.path().into(),
        ..Config::default()
    };
    let run = |trainer: Trainer| trainer.run(&Control::default(), &mut |_| {}).expect("a run");
    let first = run(Trainer::new(config("own-layer", 1)).expect("a run"));
    let mut longer = Trainer::config_of(&first.folder).expect("its settings");
    assert_eq!((longer.model.name(), longer.model.entry().about), ("own-layer", "a linear layer"));
    longer.epochs = 2;
    let second = run(Trainer::resume(&first.folder, longer).expect("a checkpoint"));
    let accuracy = second.test.expect("judged").score();
    assert_eq!((first.steps_before, second.steps_before), (0, first.steps));
    assert!(accuracy > 0.5, "{accuracy}");
    Predictor::open(&first.folder, Some("cpu")).expect("its weights");

    let refused = |name: &str, task, made| {
        add(name, "", task, made).expect("a new name");
        Trainer::new(config(name, 1)).expect_err("it is refused").to_string()
    };
    let message = refused("own-short", Task::Classify, make(|classes| classes - 1, false, false));
    assert!(message.contains("it makes [2, 9] instead of [2, 10]"), "{message}");
    let message = refused("own-twice", Task::Classify, make(|classes| classes, true, false));
    assert!(message.contains("two variables are called `layer.weight`"), "{message}");
    let message = refused("own-empty", Task::Classify, make(|classes| classes, false, true));
    assert!(message.contains("it has no parameters"), "{message}");
    for (name, said) in [("own-layer", "already"), ("resnet20", "already"), ("Mine!", "is not a model's name")] {
        let error = add(name, "", Task::Classify, make(|classes| classes, false, false)).expect_err("no new name");
        assert!(error.to_string().contains(said), "{error}");
    }
}
