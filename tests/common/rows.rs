//! One row per op: its name, sample inputs and how to call it.

use brasa::ops::conv::ConvOptions;
use brasa::tensor::{CrossEntropy, Mask, Reduction};
use brasa::{DType, Tensor};

/// A sample input.
#[derive(Clone, Debug)]
pub struct Input {
    pub shape: Vec<usize>,
    pub low: f64,
    pub high: f64,
    pub dtype: DType,
}

/// An op with its samples.
pub struct Row {
    pub name: &'static str,
    pub call: fn(&[Tensor]) -> Tensor,
    pub cases: Vec<Vec<Input>>,
    /// Allowed error on devices, in units of f32's rounding times the size of the values.
    pub tolerance: f64,
}

impl Row {
    /// One more case: floats in -2..2 of these shapes.
    fn on<const N: usize>(self, shapes: [&[usize]; N]) -> Self {
        self.within(-2.0, 2.0, shapes)
    }

    /// One more case: floats in `low..high` of these shapes.
    fn within<const N: usize>(self, low: f64, high: f64, shapes: [&[usize]; N]) -> Self {
        let inputs = shapes.map(|shape| Input { shape: shape.to_vec(), low, high, dtype: DType::F32 });
        self.case(inputs.to_vec())
    }

    /// One more case: floats in -2..2, then integers in `0..bound`.
    fn indexed<const N: usize>(self, floats: [&[usize]; N], bound: usize, index: &[usize]) -> Self {
        let mut inputs: Vec<Input> = floats
            .iter()
            .map(|shape| Input { shape: shape.to_vec(), low: -2.0, high: 2.0, dtype: DType::F32 })
            .collect();
        inputs.push(Input { shape: index.to_vec(), low: 0.0, high: bound as f64, dtype: DType::I32 });
        self.case(inputs)
    }

    /// One more case: values of one type in `low..high`.
    fn typed<const N: usize>(self, dtype: DType, low: f64, high: f64, shapes: [&[usize]; N]) -> Self {
        let inputs = shapes.map(|shape| Input { shape: shape.to_vec(), low, high, dtype });
        self.case(inputs.to_vec())
    }

    fn case(mut self, inputs: Vec<Input>) -> Self {
        self.cases.push(inputs);
        self
    }

    /// With a larger error allowed on devices.
    fn loose(mut self, tolerance: f64) -> Self {
        self.tolerance = tolerance;
        self
    }
}

fn row(name: &'static str, call: fn(&[Tensor]) -> Tensor) -> Row {
    Row { name, call, cases: Vec::new(), tolerance: 16.0 }
}

/// A unary op over the usual shapes: rank 0, size 1, a prime, an empty axis.
fn unary(name: &'static str, low: f64, high: f64, call: fn(&[Tensor]) -> Tensor) -> Row {
    let row = row(name, call);
    row.within(low, high, [&[]]).within(low, high, [&[1, 7]]).within(low, high, [&[3, 5]]).within(low, high, [&[0, 3]])
}

/// A binary op over broadcasts.
fn binary(name: &'static str, low: f64, high: f64, call: fn(&[Tensor]) -> Tensor) -> Row {
    row(name, call)
        .within(low, high, [&[2, 3], &[2, 3]])
        .within(low, high, [&[2, 1, 3], &[5, 1]])
        .within(low, high, [&[], &[4]])
        .within(low, high, [&[0, 3], &[3]])
}

/// A reduction over no, one and several axes.
fn reduction(name: &'static str, call: fn(&[Tensor]) -> Tensor) -> Row {
    row(name, call).on([&[3, 5, 2]]).on([&[1, 7, 1]])
}

fn conv(stride: usize, padding: usize, dilation: usize, groups: usize) -> ConvOptions {
    ConvOptions::default().stride(stride).padding(padding).dilation(dilation).groups(groups)
}

/// All rows.
pub fn rows() -> Vec<Row> {
    [elementwise(), movement(), reductions(), linear(), windows(), indexing(), composed()]
        .into_iter()
        .flatten()
        .collect()
}

fn elementwise() -> Vec<Row> {
    let int = |row: Row| row.typed(DType::I32, -9.0, 9.0, [&[3, 5], &[5]]).typed(DType::U32, 0.0, 9.0, [&[4], &[4]]);
    vec![
        unary("neg", -2.0, 2.0, |x| -&x[0]).typed(DType::I32, -9.0, 9.0, [&[5]]),
        unary("abs", -2.0, 2.0, |x| x[0].abs()).typed(DType::I32, -9.0, 9.0, [&[5]]),
        unary("sign", -2.0, 2.0, |x| x[0].sign()),
        unary("exp", -2.0, 2.0, |x| x[0].exp()),
        unary("log", 0.1, 4.0, |x| x[0].log()),
        unary("sqrt", 0.1, 4.0, |x| x[0].sqrt()),
        unary("rsqrt", 0.1, 4.0, |x| x[0].rsqrt()),
        unary("reciprocal", 0.5, 4.0, |x| x[0].reciprocal()),
        unary("sin", -4.0, 4.0, |x| x[0].sin()),
        unary("cos", -4.0, 4.0, |x| x[0].cos()),
        unary("tanh", -3.0, 3.0, |x| x[0].tanh()),
        unary("erf", -3.0, 3.0, |x| x[0].erf()),
        unary("sigmoid", -5.0, 5.0, |x| x[0].sigmoid()),
        unary("floor", -5.0, 5.0, |x| x[0].floor()),
        unary("ceil", -5.0, 5.0, |x| x[0].ceil()),
        unary("round", -5.0, 5.0, |x| x[0].round()),
        unary("isfinite", -1.0, 1.0, |x| x[0].log().isfinite()),
        unary("isnan", -1.0, 1.0, |x| x[0].log().isnan()),
        row("logical_not", |x| x[0].logical_not()).typed(DType::Bool, 0.0, 2.0, [&[3, 5]]),
        int(binary("add", -2.0, 2.0, |x| &x[0] + &x[1])),
        int(binary("sub", -2.0, 2.0, |x| &x[0] - &x[1])),
        int(binary("mul", -2.0, 2.0, |x| &x[0] * &x[1])),
        binary("div", 0.5, 4.0, |x| &x[0] / &x[1]),
        int(row("div_trunc", |x| x[0].div_trunc(&x[1]))),
        int(binary("fmod", 0.5, 4.0, |x| x[0].fmod(&x[1]))),
        int(row("remainder", |x| x[0].remainder(&x[1]))),
        binary("pow", 0.5, 3.0, |x| x[0].pow(&x[1])),
        unary("pow_whole", -2.0, 2.0, |x| x[0].pow(3) + x[0].pow(2.0) * x[0].pow(4)),
        int(binary("maximum", -2.0, 2.0, |x| x[0].maximum(&x[1]))),
        int(binary("minimum", -2.0, 2.0, |x| x[0].minimum(&x[1]))),
        int(binary("eq", -2.0, 2.0, |x| x[0].eq(&x[1]))),
        int(binary("ne", -2.0, 2.0, |x| x[0].ne(&x[1]))),
        int(binary("lt", -2.0, 2.0, |x| x[0].lt(&x[1]))),
        int(binary("le", -2.0, 2.0, |x| x[0].le(&x[1]))),
        int(binary("gt", -2.0, 2.0, |x| x[0].gt(&x[1]))),
        int(binary("ge", -2.0, 2.0, |x| x[0].ge(&x[1]))),
        int(row("bitwise_and", |x| x[0].bitwise_and(&x[1]))),
        int(row("bitwise_or", |x| x[0].bitwise_or(&x[1]))),
        int(row("bitwise_xor", |x| x[0].bitwise_xor(&x[1]))),
        int(row("shift", |x| x[0].bitwise_left_shift(&x[1]).bitwise_right_shift(3))),
        row("logical", |x| x[0].logical_and(&x[1]).logical_or(&x[0].logical_not())).typed(
            DType::Bool,
            0.0,
            2.0,
            [&[7], &[7]],
        ),
        binary("where", -2.0, 2.0, |x| x[0].gt(0.0).where_(&x[0] * &x[1], &x[1])),
        unary("where_scalar", -2.0, 2.0, |x| x[0].gt(0.0).where_(&x[0], 3.0)),
        unary("clamp", -2.0, 2.0, |x| x[0].clamp(-1.0, 1.0)),
        unary("log1p", -0.5, 2.0, |x| x[0].log1p()),
        unary("expm1", -2.0, 2.0, |x| x[0].expm1()),
        unary("relu", -2.0, 2.0, |x| x[0].relu()),
        unary("leaky_relu", -2.0, 2.0, |x| x[0].leaky_relu(0.1)),
        unary("gelu", -3.0, 3.0, |x| x[0].gelu()),
        unary("gelu_tanh", -3.0, 3.0, |x| x[0].gelu_tanh()),
        unary("silu", -3.0, 3.0, |x| x[0].silu()),
        unary("softplus", -3.0, 3.0, |x| x[0].softplus()),
        unary("log_sigmoid", -3.0, 3.0, |x| x[0].log_sigmoid()),
        unary("cast_integer", -5.0, 5.0, |x| x[0].to_dtype(DType::I32)).typed(DType::U8, 0.0, 255.0, [&[5]]),
        row("cast_float", |x| x[0].to_dtype(DType::F32) / 255.0).typed(DType::U8, 0.0, 255.0, [&[5]]),
        row("promoted", |x| &x[0] * 0.5 + 1).typed(DType::I32, -9.0, 9.0, [&[5]]),
    ]
}

fn movement() -> Vec<Row> {
    vec![
        row("reshape", |x| x[0].reshape([-1, 2]) * 3.0).on([&[3, 4]]).on([&[2, 1, 3]]),
        row("flatten", |x| x[0].flatten(1, -1)).on([&[3, 4, 2]]),
        row("permute", |x| x[0].permute([2, 0, 1])).on([&[3, 4, 2]]).on([&[1, 0, 2]]),
        row("transpose", |x| x[0].transpose(0, -1)).on([&[3, 4, 2]]),
        row("t", |x| x[0].t()).on([&[3, 4]]),
        row("unsqueeze", |x| x[0].unsqueeze(-1).unsqueeze(0)).on([&[3]]).on([&[]]),
        row("squeeze", |x| x[0].squeeze([0, 2])).on([&[1, 3, 1]]),
        row("expand", |x| x[0].expand([2, 3, 4])).on([&[3, 1]]).on([&[]]),
        row("expand_rows", |x| x[0].expand([0, 3])).on([&[3]]),
        row("narrow", |x| x[0].narrow(-1, 1, 2)).on([&[3, 4]]),
        row("narrow_to_nothing", |x| x[0].narrow(0, 1, 0)).on([&[3, 4]]),
        row("slice", |x| x[0].slice(0, 2..)).on([&[5]]),
        row("slice_step", |x| x[0].slice_step(0, 1..6, 2)).on([&[7, 2]]),
        row("select", |x| x[0].select(1, 2)).on([&[3, 4]]).on([&[1, 3]]),
        row("flip", |x| x[0].flip([0, 1])).on([&[3, 4]]),
        row("pad", |x| x[0].pad(&[(1, 0), (2, -1)], 7.0)).on([&[3, 4]]).on([&[0, 2]]).on([&[1, 1]]),
        row("cat", |x| Tensor::cat(&[&x[0], &x[1], &x[0]], 1)).on([&[2, 3], &[2, 1]]).on([&[2, 0], &[2, 2]]),
        row("cat_bytes", |x| Tensor::cat(&[&x[0], &x[1]], 0)).typed(DType::U8, 0.0, 255.0, [&[3], &[4]]),
        row("stack", |x| Tensor::stack(&[&x[0], &x[1]], 1)).on([&[2, 3], &[2, 3]]),
        row("split", |x| {
            x[0].split(2, 0).iter().rev().fold(x[0].narrow(0, 0, 1), |sum, part| sum * part.narrow(0, 0, 1))
        })
        .on([&[5, 2]]),
        row("chunk", |x| x[0].chunk(2, 1)[1].clone()).on([&[2, 5]]),
        row("upsample_nearest2d", |x| x[0].upsample_nearest2d([2, 3])).on([&[1, 2, 3, 2]]),
        row("views_of_views", |x| x[0].t().slice_step(0, .., 2).flip(1).pad(&[(1, 1), (0, 1)], 0.0).t().reshape([-1]))
            .on([&[3, 5]]),
    ]
}

fn reductions() -> Vec<Row> {
    vec![
        reduction("sum", |x| x[0].sum()).typed(DType::I32, -9.0, 9.0, [&[3, 4]]).on([&[0, 2]]).on([&[]]),
        reduction("sum_dim", |x| x[0].sum_dim([0, -1])).typed(DType::Bool, 0.0, 2.0, [&[3, 2, 4]]),
        reduction("sum_keepdim", |x| x[0].sum_keepdim(1)).on([&[2, 0, 3]]),
        reduction("mean", |x| x[0].mean()),
        reduction("mean_dim", |x| x[0].mean_dim(1)),
        reduction("max", |x| x[0].max_dim([1, 2])).typed(DType::I32, -9.0, 9.0, [&[3, 2, 4]]),
        reduction("max_keepdim", |x| x[0].max_keepdim(0)),
        reduction("min", |x| x[0].min_dim(0)).typed(DType::U32, 0.0, 9.0, [&[3, 2, 4]]),
        reduction("prod", |x| x[0].prod_dim([0, 1])).typed(DType::I32, -3.0, 4.0, [&[3, 2, 4]]),
        reduction("any", |x| x[0].gt(1.5).any_dim(1)),
        reduction("all", |x| x[0].gt(-1.5).all_dim(1)),
        reduction("var", |x| x[0].var_dim([0, 1], 1)).loose(64.0),
        reduction("std", |x| x[0].std_dim(1, 0)).on([&[2, 9]]),
        reduction("argmax", |x| x[0].argmax(1)).typed(DType::I32, 0.0, 3.0, [&[3, 9]]),
        reduction("argmin", |x| x[0].argmin(-2)).typed(DType::I32, 0.0, 3.0, [&[9, 3]]),
        reduction("logsumexp", |x| x[0].logsumexp([1, 2])),
    ]
    .into_iter()
    .map(|mut row| {
        // a single element has no standard deviation to differentiate
        if row.name == "std" {
            row.cases.retain(|case| case[0].shape != [1, 7, 1]);
            row.cases.push(vec![Input { shape: vec![4, 3], low: -2.0, high: 2.0, dtype: DType::F32 }]);
        }
        row
    })
    .collect()
}

fn linear() -> Vec<Row> {
    let int = |row: Row| row.typed(DType::I32, -9.0, 9.0, [&[3, 4], &[4, 2]]);
    vec![
        int(row("matmul", |x| x[0].matmul(&x[1])))
            .on([&[3, 4], &[4, 5]])
            .on([&[4], &[4]])
            .on([&[3, 4], &[4]])
            .on([&[4], &[4, 2]])
            .on([&[2, 3, 4], &[4, 5]])
            .on([&[3, 4], &[2, 4, 5]])
            .on([&[2, 1, 3, 4], &[5, 4, 2]])
            .on([&[1, 3, 4], &[2, 4, 1]])
            .on([&[3, 0], &[0, 2]])
            .on([&[0, 3], &[3, 2]]),
        row("linear", |x| x[0].linear(&x[1], Some(&x[2]))).on([&[2, 3, 4], &[5, 4], &[5]]).on([&[4], &[5, 4], &[5]]),
        row("contract", |x| x[0].contract(&x[1], &[0, 1, 2], &[2, 3, 0], &[3, 0, 1])).on([&[2, 3, 4], &[4, 5, 2]]),
        row("attention", |x| x[0].scaled_dot_product_attention(&x[1], &x[2], Mask::Causal))
            .on([&[2, 3, 4], &[2, 3, 4], &[2, 3, 5]])
            .on([&[2, 4], &[5, 4], &[5, 3]]),
        row("attention_masked", |x| x[0].scaled_dot_product_attention(&x[1], &x[2], Mask::Added(&x[3]))).on([
            &[3, 4],
            &[2, 4],
            &[2, 4],
            &[3, 2],
        ]),
    ]
}

fn windows() -> Vec<Row> {
    vec![
        row("conv1d", |x| x[0].conv1d(&x[1], Some(&x[2]), &conv(2, 1, 1, 1))).on([&[2, 3, 8], &[4, 3, 3], &[4]]),
        row("conv2d", |x| x[0].conv2d(&x[1], Some(&x[2]), &conv(1, 1, 1, 1)))
            .on([&[2, 3, 5, 4], &[4, 3, 3, 3], &[4]])
            .on([&[1, 2, 3, 3], &[2, 2, 1, 1], &[2]]),
        row("conv2d_strided", |x| x[0].conv2d(&x[1], None, &conv(2, 1, 1, 1)))
            .on([&[2, 3, 7, 6], &[4, 3, 3, 3]])
            .on([&[1, 1, 2, 2], &[1, 1, 4, 4]]),
        row("conv2d_dilated", |x| x[0].conv2d(&x[1], None, &conv(1, 2, 2, 1))).on([&[1, 2, 6, 5], &[3, 2, 3, 3]]),
        row("conv2d_grouped", |x| x[0].conv2d(&x[1], None, &conv(1, 1, 1, 2))).on([&[2, 4, 4, 4], &[6, 2, 3, 3]]),
        row("conv2d_depthwise", |x| x[0].conv2d(&x[1], None, &conv(2, 1, 1, 3))).on([&[2, 3, 5, 5], &[3, 1, 3, 3]]),
        row("conv3d", |x| x[0].conv3d(&x[1], None, &conv(1, 0, 1, 1))).on([&[1, 2, 3, 4, 3], &[2, 2, 2, 3, 2]]),
        row("conv_transpose1d", |x| x[0].conv_transpose1d(&x[1], None, &conv(3, 0, 1, 1))).on([&[1, 2, 4], &[2, 3, 2]]),
        row("conv_transpose2d", |x| x[0].conv_transpose2d(&x[1], Some(&x[2]), &conv(2, 1, 1, 1).output_padding(1)))
            .on([&[2, 3, 3, 4], &[3, 2, 3, 3], &[2]]),
        row("conv_transpose2d_grouped", |x| x[0].conv_transpose2d(&x[1], None, &conv(2, 0, 2, 2)))
            .on([&[1, 4, 3, 3], &[4, 3, 2, 2]]),
        row("max_pool2d", |x| x[0].max_pool2d(2, 2, 0)).on([&[2, 3, 6, 4]]).on([&[1, 1, 3, 3]]),
        row("max_pool2d_overlapping", |x| x[0].max_pool2d(3, 2, 1)).on([&[2, 2, 6, 5]]),
        row("avg_pool2d", |x| x[0].avg_pool2d(2, 2, 0)).on([&[2, 3, 6, 4]]),
        row("avg_pool2d_overlapping", |x| x[0].avg_pool2d(3, 1, 1)).on([&[1, 2, 4, 5]]),
        row("adaptive_avg_pool2d", |x| x[0].adaptive_avg_pool2d(2)).on([&[2, 3, 6, 4]]),
    ]
}

fn indexing() -> Vec<Row> {
    vec![
        row("index_select", |x| x[0].index_select(1, &x[1])).indexed([&[3, 5, 2]], 5, &[4]).indexed(
            [&[1, 2]],
            2,
            &[2, 3],
        ),
        row("index_select_one", |x| x[0].index_select(0, &x[1])).indexed([&[3, 2]], 3, &[]),
        row("embedding", |x| x[0].embedding(&x[1])).indexed([&[7, 4]], 7, &[2, 3]),
        row("gather", |x| x[0].gather(1, &x[1])).indexed([&[3, 5]], 5, &[3, 2]),
        row("one_hot", |x| x[0].one_hot(5)).indexed([], 5, &[2, 3]),
        row("index_add", |x| x[0].index_add(0, &x[2], &x[1])).indexed([&[4, 3], &[6, 3]], 4, &[6]),
    ]
}

fn composed() -> Vec<Row> {
    vec![
        row("softmax", |x| x[0].softmax(1)).on([&[3, 5]]).on([&[2, 3, 4]]).on([&[2, 1]]),
        row("log_softmax", |x| x[0].log_softmax(-1)).on([&[3, 5]]),
        row("cross_entropy", |x| x[0].cross_entropy(&x[1])).indexed([&[4, 5]], 5, &[4]).indexed(
            [&[2, 3, 2, 2]],
            3,
            &[2, 2, 2],
        ),
        row("cross_entropy_smoothed", |x| {
            let options = CrossEntropy { label_smoothing: 0.1, reduction: Reduction::Sum, ..CrossEntropy::default() };
            x[0].cross_entropy_with(&x[1], &options)
        })
        .indexed([&[4, 5]], 5, &[4])
        .indexed([&[5]], 5, &[]),
        row("cross_entropy_soft", |x| x[0].cross_entropy_soft(&x[1], Reduction::None)).on([&[4, 5], &[4, 5]]),
        row("nll_loss", |x| x[0].nll_loss(&x[1], Reduction::Mean)).indexed([&[4, 5]], 5, &[4]),
        row("mse_loss", |x| x[0].mse_loss(&x[1], Reduction::Mean)).on([&[4, 5], &[4, 5]]),
        row("l1_loss", |x| x[0].l1_loss(&x[1], Reduction::Sum)).on([&[4, 5], &[4, 5]]),
        row("binary_cross_entropy_with_logits", |x| x[0].binary_cross_entropy_with_logits(&x[1], Reduction::Mean))
            .on([&[4, 5], &[4, 5]]),
        row("layer_norm", |x| x[0].layer_norm(1, Some(&x[1]), Some(&x[2]), 1e-5)).on([&[3, 6], &[6], &[6]]).loose(64.0),
        row("layer_norm_two_axes", |x| x[0].layer_norm(2, None, None, 1e-5)).on([&[2, 3, 4]]).loose(64.0),
        row("rms_norm", |x| x[0].rms_norm(Some(&x[1]), 1e-5)).on([&[3, 6], &[6]]).loose(64.0),
        row("batch_norm", |x| x[0].batch_norm(Some(&x[1]), Some(&x[2]), 1e-5).output)
            .on([&[4, 3, 2, 2], &[3], &[3]])
            .on([&[5, 2], &[2], &[2]])
            .loose(64.0),
        row("batch_norm_statistics", |x| {
            let norm = x[0].batch_norm(None, None, 1e-5);
            norm.mean * norm.variance
        })
        .on([&[4, 3, 2, 2]])
        .loose(64.0),
        row("batch_norm_eval", |x| x[0].batch_norm_eval(&x[1], &x[2], Some(&x[3]), None, 1e-5)).within(
            0.5,
            2.0,
            [&[4, 3, 2, 2], &[3], &[3], &[3]],
        ),
        row("group_norm", |x| x[0].group_norm(2, Some(&x[1]), Some(&x[2]), 1e-5))
            .on([&[2, 4, 3], &[4], &[4]])
            .loose(64.0),
    ]
}
