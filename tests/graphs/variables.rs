//! Random programs of variables: read, assigned, differentiated and updated in any order, with and without gradients,
//! by themselves and within a step, against dual numbers.

use std::collections::BTreeMap;

use brasa::optim::{Optimizer, SGD, SGDOptions};
use brasa::runtime::{Step, Var, checkpoint};
use brasa::{Device, Tensor, no_grad};

use super::common::{assert_close, devices, values};

const VARIABLES: usize = 3;
const STATEMENTS: usize = 24;
/// A step runs twice, so that it starts from what it left.
const ROUNDS: usize = 2;
const RATE: f32 = 0.125;

/// One statement of a program, on a growing list of values.
#[derive(Clone, Copy, Debug)]
enum Statement {
    /// The next value is a variable's.
    Read(usize),
    /// The same without gradients around it.
    ReadWithout(usize),
    /// The next value is the tanh of a sum of products, from three values.
    Mix(usize, usize, usize),
    /// The same, made without gradients.
    MixWithout(usize, usize, usize),
    /// The same, computed again for its gradient.
    MixAgain(usize, usize, usize),
    /// The next value is another one, detached.
    Detach(usize),
    /// A variable becomes a value.
    Assign(usize, usize),
    /// All variables descend along the gradients of the square of a sum of values, and of the first variable's, so that
    /// there is always something to learn.
    Update(usize, usize),
    /// The last gradients are used once more.
    Again,
}

/// A number and its derivatives by all that it depends on: variables, each as it was after so many assignments.
#[derive(Clone, Debug)]
struct Dual(f64, BTreeMap<(usize, usize), f64>);

impl Dual {
    fn detached(&self) -> Self {
        Self(self.0, BTreeMap::new())
    }

    /// A function's value, from its slopes along arguments.
    fn of(value: f64, arguments: &[(f64, &Self)]) -> Self {
        let mut derivatives = BTreeMap::new();
        for (slope, argument) in arguments {
            for (&by, derivative) in &argument.1 {
                *derivatives.entry(by).or_insert(0.0) += slope * derivative;
            }
        }
        Self(value, derivatives)
    }

    fn mix(a: &Self, b: &Self, c: &Self) -> Self {
        let value = (a.0 * b.0 + c.0).tanh();
        let slope = 1.0 - value * value;
        Self::of(value, &[(slope * b.0, a), (slope * a.0, b), (slope, c)])
    }

    /// By each variable, as it was last among what this depends on.
    fn gradients(&self) -> [f64; VARIABLES] {
        let newest = |n: usize| self.1.range((n, 0)..(n + 1, 0)).next_back();
        std::array::from_fn(|n| newest(n).map_or(0.0, |(_, &derivative)| derivative))
    }
}

fn program(seed: u64) -> Vec<Statement> {
    let mut numbers = values(seed, 6 * STATEMENTS, 0.0, 1.0).into_iter();
    let mut below = |bound: usize| (numbers.next().expect("enough") * bound as f64) as usize % bound.max(1);
    let (mut made, mut learned) = (0, false);
    let mut statements = Vec::new();
    for number in 0..STATEMENTS {
        let (a, b, c, variable) = (below(made), below(made), below(made), below(VARIABLES));
        let statement = match below(10) {
            _ if number < VARIABLES => Statement::Read(number),
            0 | 1 => Statement::Read(variable),
            2 => Statement::ReadWithout(variable),
            3 | 4 => Statement::Mix(a, b, c),
            5 => [Statement::MixWithout(a, b, c), Statement::MixAgain(a, b, c)][below(2)],
            6 => Statement::Detach(a),
            7 => Statement::Assign(variable, a),
            8 if learned => Statement::Again,
            _ => Statement::Update(a, b),
        };
        let is_update = matches!(statement, Statement::Update(..));
        made += usize::from(!is_update && !matches!(statement, Statement::Assign(..) | Statement::Again));
        learned |= is_update;
        statements.push(statement);
    }
    statements
}

/// What the program gives when it runs from these variables on: the loss of each update.
fn expected(program: &[Statement], variables: &mut [f64; VARIABLES]) -> Vec<f64> {
    let (mut values, mut losses): (Vec<Dual>, Vec<f64>) = (Vec::new(), Vec::new());
    let (mut assignments, mut gradients) = ([0; VARIABLES], [0.0; VARIABLES]);
    for statement in program {
        let read = |n: usize| Dual(variables[n], BTreeMap::from([((n, assignments[n]), 1.0)]));
        match *statement {
            Statement::Read(n) | Statement::ReadWithout(n) => values.push(read(n)),
            Statement::Mix(a, b, c) | Statement::MixAgain(a, b, c) => {
                values.push(Dual::mix(&values[a], &values[b], &values[c]));
            }
            Statement::MixWithout(a, b, c) => values.push(Dual::mix(&values[a], &values[b], &values[c]).detached()),
            Statement::Detach(a) => values.push(values[a].detached()),
            Statement::Assign(n, a) => {
                variables[n] = values[a].0;
                assignments[n] += 1;
            }
            Statement::Update(a, b) => {
                let (a, b, first) = (&values[a], &values[b], read(0));
                let sum = a.0 + b.0;
                let loss = sum * sum + 0.25 * first.0 * first.0;
                losses.push(loss);
                gradients = Dual::of(loss, &[(2.0 * sum, a), (2.0 * sum, b), (0.5 * first.0, &first)]).gradients();
            }
            Statement::Again => {}
        }
        if matches!(statement, Statement::Update(..) | Statement::Again) {
            (0..VARIABLES).for_each(|n| variables[n] -= f64::from(RATE) * gradients[n]);
            assignments = assignments.map(|count| count + 1);
        }
    }
    losses
}

/// The same by tensors.
fn traced(program: &[Statement], variables: &[Var], optimizer: &SGD) -> Vec<Tensor> {
    let (mut values, mut losses): (Vec<Tensor>, Vec<Tensor>) = (Vec::new(), Vec::new());
    let mut gradients = None;
    for statement in program {
        let mix = |a: usize, b: usize, c: usize| (&values[a] * &values[b] + &values[c]).tanh();
        match *statement {
            Statement::Read(n) => values.push(variables[n].tensor()),
            Statement::ReadWithout(n) => values.push(no_grad(|| variables[n].tensor())),
            Statement::Mix(a, b, c) => values.push(mix(a, b, c)),
            Statement::MixWithout(a, b, c) => values.push(no_grad(|| mix(a, b, c))),
            Statement::MixAgain(a, b, c) => values.push(checkpoint(|| mix(a, b, c))),
            Statement::Detach(a) => values.push(values[a].detach()),
            Statement::Assign(n, a) => variables[n].assign(&values[a]),
            Statement::Update(a, b) => {
                let loss = (&values[a] + &values[b]).square() + variables[0].tensor().square() * 0.25;
                gradients = Some(loss.backward());
                losses.push(loss);
            }
            Statement::Again => {}
        }
        if matches!(statement, Statement::Update(..) | Statement::Again) {
            optimizer.update(gradients.as_ref().expect("an update came first"));
        }
    }
    losses
}

/// The losses of all rounds, then the variables.
fn run(device: &Device, program: &[Statement], start: [f32; VARIABLES], captured: bool) -> Vec<f64> {
    let variable = |n: usize| Var::parameter(&format!("v{n}"), &Tensor::full([1], start[n], device)).expect("memory");
    let variables: Vec<Var> = (0..VARIABLES).map(variable).collect();
    let options = SGDOptions { learning_rate: RATE, ..Default::default() };
    let optimizer = SGD::new(&variables, options).expect("memory");
    let rounds: Vec<Vec<Tensor>> = if captured {
        let (program, variables) = (program.to_vec(), variables.clone());
        let mut step = Step::new(device, move |_| traced(&program, &variables, &optimizer)).expect("a step");
        (0..ROUNDS).map(|_| step.run(&[]).expect("a run")).collect()
    } else {
        (0..ROUNDS).map(|_| traced(program, &variables, &optimizer)).collect()
    };
    let value = |tensor: Tensor| f64::from(tensor.to_vec::<f32>().expect("a value")[0]);
    rounds.into_iter().flatten().chain(variables.iter().map(Var::tensor)).map(value).collect()
}

#[test]
fn programs_of_variables_are_those_of_dual_numbers() {
    for device in devices() {
        // a plan's kernels take a while to be compiled where they run as machine code for the first time
        let programs = if device == Device::cpu() { 150 } else { 8 };
        for seed in 0..programs {
            let program = program(seed);
            let start: [f32; VARIABLES] = std::array::from_fn(|n| values(seed, VARIABLES, -1.5, 1.5)[n] as f32);
            let mut variables = start.map(f64::from);
            let mut right: Vec<f64> = (0..ROUNDS).flat_map(|_| expected(&program, &mut variables)).collect();
            right.extend(variables);
            for captured in [false, true] {
                let got = run(&device, &program, start, captured);
                let what = format!("program {seed} on {device:?}, captured: {captured}, {program:?}");
                assert_close(&what, &got, &right, 1e-4, 1e-5);
            }
        }
    }
}
