//! The workloads.

use brasa::ops::conv::ConvOptions;
use brasa::ops::pool::PoolOptions;
use brasa::tensor::Mask;
use brasa::{DType, Tensor};

use super::workload::{Workload, within};

/// Multiplications of one product.
const PRODUCTS: usize = 3_000_000;
/// Elements of one operand.
const ELEMENTS: usize = 60_000;

/// Builds its outputs.
pub(super) type Build = fn(&mut Workload) -> Vec<Tensor>;

pub(super) const WORKLOADS: &[(&str, Build)] = &[
    ("contract", contract),
    ("contract", contract),
    ("matmul", matmul),
    ("integers", integers),
    ("conv1d", |w| convolution::<1>(w)),
    ("conv2d", |w| convolution::<2>(w)),
    ("conv2d", |w| convolution::<2>(w)),
    ("conv2d", |w| convolution::<2>(w)),
    ("conv3d", |w| convolution::<3>(w)),
    ("transposed", transposed),
    ("reduce", reduce),
    ("reduce", reduce),
    ("rows", rows),
    ("norms", norms),
    ("pool", pool),
    ("attention", attention),
    ("movement", movement),
    ("scans", scans),
    ("indexing", indexing),
    ("network", network),
    ("transformer", transformer),
];

/// Products over several axes in any order.
fn contract(w: &mut Workload) -> Vec<Tensor> {
    w.half = w.one_in(8);
    // axes of both that stay, rows, columns, and summed ones
    let counts = [w.below(4).saturating_sub(1), 1 + w.below(4) / 3, w.below(4).div_ceil(2), 1 + w.below(4) / 3];
    let mut sizes: [usize; 8] = [1; 8];
    for kind in 0..4 {
        for size in &mut sizes[2 * kind..2 * kind + counts[kind]] {
            *size = w.size(300);
        }
    }
    let product = |sizes: &[usize]| sizes.iter().product::<usize>();
    let sizes = within(sizes, PRODUCTS, |sizes| {
        let operands = [product(&sizes[..4]) * product(&sizes[6..]), product(&sizes[..2]) * product(&sizes[4..])];
        let large = operands.into_iter().chain([product(&sizes[..6])]).any(|operand| operand > ELEMENTS);
        if large { usize::MAX } else { product(&sizes) }
    });
    let mut labels = |kinds: [usize; 3]| {
        let of = |kind: usize| (2 * kind..2 * kind + counts[kind]).map(|label| label as u8);
        let mut labels: Vec<u8> = kinds.into_iter().flat_map(of).collect();
        if !w.one_in(3) {
            w.shuffle(&mut labels);
        }
        labels
    };
    let [lhs, rhs, out] = [labels([0, 1, 3]), labels([0, 2, 3]), labels([0, 1, 2])];
    w.note((&lhs, &rhs, &out, sizes));
    let shape = |labels: &[u8]| labels.iter().map(|&label| sizes[usize::from(label)]).collect::<Vec<_>>();
    let (a, b) = (w.operand(&shape(&lhs)), w.operand(&shape(&rhs)));
    let y = a.contract(&b, &lhs, &rhs, &out);
    let outputs = w.epilogue(y);
    if w.one_in(2) { w.with_gradients(outputs) } else { outputs }
}

/// Matrices with a batch, from a single row on.
fn matmul(w: &mut Workload) -> Vec<Tensor> {
    w.half = w.one_in(6);
    let sizes = w.sizes([9, 400, 400, 400]);
    let [b, m, k, n] = within(sizes, PRODUCTS, |[b, m, k, n]| b * m * k * n + 50 * b * (m * k + k * n + m * n));
    w.note([b, m, k, n]);
    let shared = w.one_in(3);
    let x = w.operand(&[b, m, k]);
    let y = if shared {
        let weight = w.operand(&[n, k]);
        x.matmul(&weight.t())
    } else {
        let other = w.operand(&[b, k, n]);
        x.matmul(&other)
    };
    let outputs = w.epilogue(y);
    if w.one_in(2) { w.with_gradients(outputs) } else { outputs }
}

fn integers(w: &mut Workload) -> Vec<Tensor> {
    let sizes = w.sizes([3, 200, 200, 200]);
    let [b, m, k, n] = within(sizes, PRODUCTS / 4, |[b, m, k, n]| b * m * k * n);
    w.note([b, m, k, n]);
    let (x, y) = (w.input(&[b, m, k], DType::I32), w.input(&[b, n, k], DType::I32));
    let product = x.matmul(&y.transpose(1, 2));
    vec![product.sum_dim(2), product.max_dim(1), product, x.cumsum(2)]
}

fn convolution<const AXES: usize>(w: &mut Workload) -> Vec<Tensor> {
    w.half = w.one_in(8);
    let depthwise = w.one_in(6);
    let groups = if w.one_in(4) { w.size(4) } else { 1 };
    let kernels: [&[usize]; 4] = [&[1], &[3], &[3], &[2, 4, 5, 7]];
    let kernel_sizes = kernels[w.below(4)];
    let mut options = ConvOptions::default();
    let alike = w.one_in(2);
    let (mut kernel, mut stride, mut dilation, mut padding) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for axis in 0..AXES {
        if alike && axis > 0 {
            [&mut kernel, &mut stride, &mut dilation, &mut padding].into_iter().for_each(|list| list.push(list[0]));
            continue;
        }
        kernel.push(w.of(kernel_sizes));
        stride.push(w.of(&[1, 1, 1, 2, 3]));
        dilation.push(w.of(&[1, 1, 1, 2]));
        padding.push(if w.one_in(2) { kernel[axis] / 2 } else { w.below(kernel[axis] + 1) });
    }
    (options.stride, options.dilation, options.padding) = (stride, dilation, padding);
    let window: usize = kernel.iter().product();
    let [batch, inputs, outputs] = w.sizes([64, 48, 48]);
    let spatial = w.sizes([[1, 256, 40, 14][AXES]; AXES]);
    let least: Vec<usize> = (0..AXES)
        .map(|axis| (options.dilation[axis] * (kernel[axis] - 1) + 1).saturating_sub(2 * options.padding[axis]).max(1))
        .collect();
    let mut sizes = [1; 6];
    sizes[..3].copy_from_slice(&[batch, inputs, outputs]);
    sizes[3..3 + AXES].copy_from_slice(&spatial);
    let sizes = within(sizes, PRODUCTS, |[n, c, o, h, width, d]| {
        let places = n * h * width * d;
        let per_place = if depthwise { c * window } else { c * o * groups * window };
        if places * c * groups * window > 6 * ELEMENTS { usize::MAX } else { places * per_place }
    });
    let [batch, inputs, outputs] = [sizes[0], sizes[1], sizes[2]];
    let spatial: Vec<usize> = (0..AXES).map(|axis| sizes[3 + axis].max(least[axis])).collect();
    let (channels, weight) = if depthwise {
        options.groups = inputs;
        let each = 1 + w.below(5) / 4;
        (inputs, [inputs * each, 1])
    } else {
        options.groups = groups;
        (inputs * groups, [outputs * groups, inputs])
    };
    w.note((batch, channels, &spatial, weight, &kernel, &options));
    let x = w.operand(&[&[batch, channels], spatial.as_slice()].concat());
    let weight = w.leaf(&[&weight, kernel.as_slice()].concat()) * 0.25;
    let bias = w.one_in(3).then(|| w.leaf(&[weight.size(0)]));
    let y = match AXES {
        1 => x.conv1d(&weight, bias.as_ref(), &options),
        2 => x.conv2d(&weight, bias.as_ref(), &options),
        _ => x.conv3d(&weight, bias.as_ref(), &options),
    };
    let outputs = w.epilogue(y);
    if w.one_in(3) { outputs } else { w.with_gradients(outputs) }
}

fn transposed(w: &mut Workload) -> Vec<Tensor> {
    let groups = w.of(&[1, 1, 2]);
    let sizes = w.sizes([20, 12, 12, 20, 20]);
    let kernel = 1 + w.below(4);
    let [n, c, o, h, width] = within(sizes, PRODUCTS / 2, |[n, c, o, h, width]| {
        n * c * o * groups * (h + 1) * (width + 1) * kernel * kernel * 4
    });
    let stride = 1 + w.below(3);
    let mut options = ConvOptions::default().stride(stride).groups(groups).dilation(1 + w.below(5) / 4);
    options.padding = vec![w.below(kernel.div_ceil(2))];
    options.output_padding = vec![w.below(stride)];
    w.note((n, c, o, h, width, kernel, &options));
    let x = w.operand(&[n, c * groups, h + 1, width + 1]);
    let weight = w.leaf(&[c * groups, o, kernel, kernel]) * 0.25;
    let y = x.conv_transpose2d(&weight, None, &options);
    let outputs = w.epilogue(y);
    if w.one_in(2) { w.with_gradients(outputs) } else { outputs }
}

/// One or several reductions over some axes, and what is made of them.
fn reduce(w: &mut Workload) -> Vec<Tensor> {
    let rank = 1 + w.below(4);
    let mut sizes = [1; 4];
    for size in &mut sizes[..rank] {
        *size = w.size(if rank == 1 { 60_000 } else { 2000 });
    }
    let sizes = within(sizes, ELEMENTS, |sizes| sizes.iter().product());
    let x = w.operand(&sizes[..rank]);
    let mut axes: Vec<isize> = (0..rank as isize).filter(|_| w.one_in(2)).collect();
    if axes.is_empty() {
        axes.push(w.below(rank).cast_signed());
    }
    let way = w.below(9);
    w.note((&sizes[..rank], &axes, way));
    let outputs = match way {
        0 => vec![x.sum_dim(axes.as_slice())],
        1 => vec![x.max_dim(axes.as_slice()), x.sum_dim(axes.as_slice())],
        2 => vec![(&x - x.mean_keepdim(axes.as_slice())).square().mean_dim(axes.as_slice())],
        3 => vec![x.square().sum_dim(axes.as_slice()), (&x * 2.0).relu(), x.mean()],
        4 => vec![x.var_dim(axes.as_slice(), 0)],
        5 => vec![x.argmax(axes[0]), x.min_dim(axes[0]), x.argmin(axes[0])],
        6 => vec![(&x * 0.3).logsumexp(axes.as_slice()), x.min_dim(axes.as_slice())],
        7 => vec![x.gt(0.5).to_dtype(DType::F32).sum_dim(axes.as_slice()), x.gt(1.9).any_dim(axes.as_slice())],
        _ => {
            let last = x.sum_dim(axes.as_slice());
            vec![(&last * 0.1).sin(), x.sum(), last.square().sum()]
        }
    };
    // equal elements may share a maximum's gradient
    if way != 1 && way != 6 && w.one_in(2) { w.with_gradients(outputs) } else { outputs }
}

/// What is computed along rows.
fn rows(w: &mut Workload) -> Vec<Tensor> {
    let sizes = w.sizes([300, 3000, 12]);
    let sizes = within(sizes, ELEMENTS, |sizes| sizes.iter().product());
    let [count, length, columns] = sizes;
    let shape: Vec<usize> = if w.one_in(3) { vec![count, length, columns] } else { vec![count, length] };
    let way = w.below(7);
    w.note((&shape, way));
    let x = w.operand(&shape);
    let outputs = match way {
        0 => vec![x.softmax(1)],
        1 => vec![x.log_softmax(1)],
        2 => {
            let classes = if shape.len() == 2 { vec![count] } else { vec![count, columns] };
            let labels = w.index(length, &classes);
            vec![x.cross_entropy(&labels)]
        }
        3 => {
            let last = *shape.last().expect("it has axes");
            let (scale, shift) = (w.leaf(&[last]), w.leaf(&[last]));
            vec![x.layer_norm(1, Some(&scale), Some(&shift), 1e-2)]
        }
        4 => {
            let scale = w.leaf(&[*shape.last().expect("it has axes")]);
            vec![x.rms_norm(Some(&scale), 1e-2)]
        }
        5 => vec![x.normalize(2.0, 1, 1e-1)],
        _ => {
            let (top, index) = x.topk(length.min(3), 1, true);
            vec![top, index, x.softmax(-1)]
        }
    };
    if way == 6 || w.one_in(2) { outputs } else { w.with_gradients(outputs) }
}

fn norms(w: &mut Workload) -> Vec<Tensor> {
    let sizes = w.sizes([40, 40, 30, 30]);
    let [n, c, h, width] = within(sizes, ELEMENTS / 2, |sizes| sizes.iter().product());
    let way = w.below(4);
    let c = if way == 1 { c.div_ceil(3) * 3 } else { c };
    w.note((n, c, h, width, way));
    let x = w.operand(&[n, c, h, width]);
    let (scale, shift) = (w.leaf(&[c]), w.leaf(&[c]));
    let outputs = match way {
        0 => {
            let norm = x.batch_norm(Some(&scale), Some(&shift), 1e-2);
            vec![norm.output.relu(), norm.mean]
        }
        1 => vec![x.group_norm(3, Some(&scale), Some(&shift), 1e-2)],
        2 => vec![x.instance_norm(Some(&scale), Some(&shift), 1e-2)],
        _ => vec![x.batch_norm_eval(&(&shift * 0.1), &(scale.square() + 0.5), None, Some(&shift), 1e-3)],
    };
    if w.one_in(3) { outputs } else { w.with_gradients(outputs) }
}

fn pool(w: &mut Workload) -> Vec<Tensor> {
    let sizes = w.sizes([20, 20, 50, 50]);
    let [n, c, h, width] = within(sizes, ELEMENTS / 3, |sizes| sizes.iter().product());
    let mut options = PoolOptions::new([1 + w.below(4), 1 + w.below(4)]);
    options.stride = vec![1 + w.below(3), 1 + w.below(3)];
    options.padding = options.kernel.iter().map(|size| w.below(size / 2 + 1)).collect();
    if w.one_in(4) {
        options = options.ceil_mode();
    }
    let (h, width) = (h.max(options.kernel[0]), width.max(options.kernel[1]));
    w.note((n, c, h, width, &options));
    let x = w.operand(&[n, c, h, width]);
    let outputs = match w.below(3) {
        0 => vec![x.avg_pool2d_with(&options)],
        1 => vec![x.max_pool2d_with(&options)],
        _ => {
            let (pooled, places) = x.max_pool2d_with_indices(&options);
            vec![pooled, places]
        }
    };
    // equal elements share a maximum's gradient in any way
    w.with_gradients(outputs)
}

fn attention(w: &mut Workload) -> Vec<Tensor> {
    w.half = w.one_in(8);
    let sizes = w.sizes([6, 200, 200, 70, 70]);
    let [b, m, n, k, v] = within(sizes, PRODUCTS / 2, |[b, m, n, k, v]| b * m * n * (k + v));
    let way = w.below(4);
    // the last query sees all keys, and the first at least one
    let n = if way == 1 { n.max(m) } else { n };
    w.note((b, m, n, k, v, way));
    let (query, key, value) = (w.operand(&[b, m, k]), w.operand(&[b, n, k]), w.operand(&[b, n, v]));
    let y = match way {
        1 => query.scaled_dot_product_attention(&key, &value, Mask::Causal),
        2 => {
            let added = w.leaf(&[m, n]);
            query.scaled_dot_product_attention(&key, &value, Mask::Added(&added))
        }
        3 => {
            let allowed = w.input(&[b, m, n], DType::Bool);
            let some = Tensor::arange(n, query.device()).eq(0);
            query.scaled_dot_product_attention(
                &key,
                &value,
                Mask::Allowed(&allowed.logical_or(&some.expand([b, m, n]))),
            )
        }
        _ => query.scaled_dot_product_attention(&key, &value, Mask::None),
    };
    if w.one_in(3) { vec![y] } else { w.with_gradients(vec![y]) }
}

/// Views upon views, and what is computed from where they lead.
fn movement(w: &mut Workload) -> Vec<Tensor> {
    let sizes = w.sizes([300, 300, 300]);
    let sizes = within(sizes, ELEMENTS / 2, |sizes| sizes.iter().product());
    let mut x = w.operand(&sizes);
    for _ in 0..1 + w.below(5) {
        let axis = w.below(x.rank());
        let (at, size) = (axis.cast_signed(), x.size(axis.cast_signed()));
        let way = w.below(10);
        w.note((way, axis));
        x = match way {
            0 => {
                let order: Vec<isize> = w.order(x.rank()).into_iter().map(usize::cast_signed).collect();
                x.permute(order)
            }
            1 => x.flip(at),
            2 if size > 2 => x.narrow(at, 1, size - 2),
            3 => {
                let widths: Vec<_> = (0..x.rank()).map(|own| if own == axis { (2, 1) } else { (0, 0) }).collect();
                x.pad(&widths, 1.5)
            }
            4 => x.slice_step(at, .., 3),
            5 => x.roll(3, at),
            6 if x.numel() < ELEMENTS => {
                let other = x.flip(at) * 0.5;
                Tensor::cat(&[&x, &other], at)
            }
            7 => x.reshape([-1]),
            8 => x.flatten(0, -1).reshape([x.size(-1) as isize, -1]),
            _ => x.transpose(at, -1).relu(),
        };
    }
    let outputs = w.epilogue(x);
    if w.one_in(2) { outputs } else { w.with_gradients(outputs) }
}

fn scans(w: &mut Workload) -> Vec<Tensor> {
    let sizes = w.sizes([40, 3000, 10]);
    let [count, length, columns] = within(sizes, ELEMENTS / 3, |sizes| sizes.iter().product());
    let way = w.below(6);
    w.note((count, length, columns, way));
    let x = w.operand(&[count, length, columns]);
    let outputs = match way {
        0 => vec![x.cumsum(1) * 0.1],
        1 => vec![x.sort(1, true).0],
        2 => vec![x.sort(1, false).0, x.argsort(1, false)],
        3 => vec![x.cummax(1).0],
        4 => vec![(x * 0.1 + 1.0).narrow(1, 0, length.min(40)).cumprod(1)],
        _ => vec![x.median_dim(1).0, x.cumsum(0)],
    };
    if way == 0 { w.with_gradients(outputs) } else { outputs }
}

fn indexing(w: &mut Workload) -> Vec<Tensor> {
    let sizes = w.sizes([500, 60, 500]);
    let [rows, width, count] = within(sizes, ELEMENTS / 2, |[rows, width, count]| width * (rows + count));
    let way = w.below(5);
    w.note((rows, width, count, way));
    let x = w.operand(&[rows, width]);
    let index = w.index(rows, &[count]);
    let outputs = match way {
        0 => vec![x.embedding(&index).tanh()],
        1 => vec![x.index_select(0, &index)],
        2 => {
            let source = w.operand(&[count, width]);
            vec![x.index_add(0, &index, &source)]
        }
        3 => {
            let places = w.index(rows, &[count, width]);
            vec![x.gather(0, &places)]
        }
        _ => {
            let (places, source) = (w.index(rows, &[count, width]), w.operand(&[count, width]));
            vec![x.scatter_add(0, &places, &source)]
        }
    };
    w.with_gradients(outputs)
}

/// A small convolutional network and its gradients.
fn network(w: &mut Workload) -> Vec<Tensor> {
    let sizes = w.sizes([40, 16, 16, 20, 20]);
    let [n, c, o, h, width] =
        within(sizes, PRODUCTS / 2, |[n, c, o, h, width]| n * (h + 4) * (width + 4) * (c + 1) * (9 + o * 9));
    let (h, width) = (h + 4, width + 4);
    let (with_norm, stride, classes) = (w.one_in(2), 1 + w.below(2), 1 + w.size(20));
    w.note((n, c, o, h, width, with_norm, stride, classes));
    let options = ConvOptions::default().padding(1);
    let x = w.leaf(&[n, 1, h, width]);
    let (first, second) = (w.leaf(&[c, 1, 3, 3]) * 0.4, w.leaf(&[o, c, 3, 3]) * 0.2);
    let bias = w.leaf(&[c]);
    let mut y = x.conv2d(&first, Some(&bias), &options).relu();
    if with_norm {
        let (scale, shift) = (w.leaf(&[c]), w.leaf(&[c]));
        y = y.batch_norm(Some(&scale), Some(&shift), 1e-2).output;
    }
    let y = y.conv2d(&second, None, &options.stride(stride)).gelu();
    let y = if w.one_in(2) { y.avg_pool2d(2, 2, 0) } else { y.max_pool2d(2, 2, 0) };
    let flat = y.flatten(1, -1);
    let weight = w.leaf(&[classes, flat.size(1)]) * 0.1;
    let labels = w.index(classes, &[n]);
    let scores = flat.linear(&weight, None);
    let loss = scores.cross_entropy(&labels);
    w.with_gradients(vec![loss, scores])
}

/// A block of a transformer and its gradients.
fn transformer(w: &mut Workload) -> Vec<Tensor> {
    let [batch, time, heads, head] = w.sizes([5, 70, 4, 24]);
    let [batch, time, heads, head] =
        within([batch, time, heads, head], PRODUCTS / 2, |[b, t, a, e]| b * t * (12 * a * e * a * e + 2 * t * a * e));
    let width = heads * head;
    w.note((batch, time, heads, head));
    let x = w.leaf(&[batch, time, width]);
    let scale = 0.5 / (width as f64).sqrt();
    let (projection, out) = (w.leaf(&[3 * width, width]) * scale, w.leaf(&[width, width]) * scale);
    let (up, down) = (w.leaf(&[2 * width, width]) * scale, w.leaf(&[width, 2 * width]) * scale);
    let (gain, shift) = (w.leaf(&[width]), w.leaf(&[width]));
    let split = |x: &Tensor| {
        let sizes = [batch, time, heads, head].map(usize::cast_signed);
        x.reshape(sizes).transpose(1, 2)
    };
    let parts = x.layer_norm(1, Some(&gain), Some(&shift), 1e-2).linear(&projection, None).chunk(3, -1);
    let mixed = split(&parts[0]).scaled_dot_product_attention(&split(&parts[1]), &split(&parts[2]), Mask::Causal);
    let x = &x + mixed.transpose(1, 2).reshape([batch, time, width].map(usize::cast_signed)).linear(&out, None);
    let y = &x + x.rms_norm(Some(&gain), 1e-2).linear(&up, None).gelu().linear(&down, None);
    w.with_gradients(vec![y])
}
