//! What ops mean in doubtful cases, on one page. No code.
//!
//! Methods have the names and meanings of PyTorch's; differences are stated here and at the method.
//! `tests/suite/torch_ops` compares them with values and gradients that PyTorch computed, including infinities, NaN and
//! ±0.
//!
//! # Types
//!
//! * Two tensors in one op have the same type; nothing is promoted silently. Cast with
//!   [`to_dtype`](crate::Tensor::to_dtype).
//! * A number takes the type of the tensor it meets, except that a float turns an integer or bool tensor into f32, and
//!   an integer turns bool into i32, also where elements are chosen (`where_`, `masked_fill`). Where it becomes an
//!   element of a tensor (`pad`, `full_like`, `scatter`), it takes that tensor's type. A number that is not
//!   representable in an integer type panics, such as `-1` in u8 or `0.5` in i32.
//! * Functions of real numbers (`exp`, `sin`, `/`, …) turn integers into f32. Sums and products of bool and u8 are i32.
//! * Indices and counts are i32 (PyTorch: int64). u8 is for storage: it moves, compares and casts.
//! * An index outside its range makes the next read fail, even where [`where_`](crate::Tensor::where_) takes the other
//!   value. What no result needs is not computed, and not checked.
//! * f16 is stored in 16 bits and computed in 32; a result is rounded when it is stored or cast, so what is computed
//!   from it in the same kernel may use a value that is not rounded yet, and not yet infinite (reading it stores it). A
//!   number that meets an f16 tensor becomes f16 first: 1e5 is infinite there, so `x / 1e5` is 0 (PyTorch divides by
//!   the number as it is). Means, norms, normalisation and softmax of f16 are f32 up to their result.
//! * What is not read is computed anew where it is needed: a value that was read and the same one computed again may
//!   differ in their last bits, so read both (`realize`) or neither before comparing them for equality.
//!
//! # Integers
//!
//! * Functions of real numbers give f32; `floor`, `ceil`, `round` and `trunc` leave integers as they are.
//! * Sums, products, negations and powers with a whole number as exponent wrap; powers with a tensor or a negative
//!   number as exponent are f32. Shifts use the low five bits of the distance.
//! * `/` is true division. [`div_trunc`](crate::Tensor::div_trunc) rounds towards zero,
//!   [`floor_divide`](crate::Tensor::floor_divide) down; [`fmod`](crate::Tensor::fmod) has the sign of the dividend,
//!   [`remainder`](crate::Tensor::remainder) that of the divisor, and so has `%`. By zero all of these but `/` give
//!   0, as a device cannot stop there.
//! * `&`, `|`, `^` and `!` work on the bits of integers and are the logical operators of bools, as
//!   [`bitwise_and`](crate::Tensor::bitwise_and) and its kind; floats panic. A number is an integer to them, so
//!   `mask & 1` is i32, and `mask & true` bool. [`logical_and`](crate::Tensor::logical_and) and its kind take numbers
//!   as true unless zero.
//! * A float cast to an integer is truncated and saturates; NaN becomes 0. An integer cast to a smaller one wraps.
//!
//! # NaN, infinity and zero
//!
//! * NaN wins in `maximum`, `minimum`, `max`, `min`, `cummax` and `clamp`; `argmax` and `argmin` give its first place.
//!   Comparisons with NaN are false, `ne` true. `sign` keeps it (PyTorch: 0).
//! * A GPU's compiler may compute as if NaN and infinity did not occur. Expressions that it would simplify are hidden
//!   from it where they can be recognised: `x - x`, `x / x`, `x * 0`, `x / 0` and products with masks. In longer
//!   formulas, such as `(x + 1) - x`, it may still do so.
//! * The first of several largest elements is the `argmax`; `cummax` names the last, as PyTorch.
//! * Sums by a data-dependent index (`index_add`, `scatter_add`, `bincount_with`, gradients of `gather`) may be
//!   products with zeros and ones, by which NaN and infinities of one sum reach the others, too.
//! * Convolutions and their gradients need not multiply by the zeros of padding and dilation: whether NaN and infinity
//!   times such a zero show in a result is unspecified. Results of 3x3 windows may be computed in small tiles, and such
//!   values then reach all of a tile.
//! * The gradient of a slice with steps has zeros between its elements: a product behind it need not multiply by them.
//! * Attention may multiply values that its mask hides by 0, so NaN and infinity among them may show.
//! * Products of f32 are those of their operands as they are, unless
//!   [`MatmulPrecision::High`](crate::MatmulPrecision::High) is asked for.
//! * `sin` and `cos` of more than 10,000 are the driver's own on a GPU, which may be wrong in all digits; a CPU's are
//!   exact to the last ones.
//! * Results that are not normal numbers in f32 (below 1.2e-38) may be 0 on a GPU. The sign of a zero is kept by
//!   movement, `copysign` and odd functions, but not promised through sums.
//!
//! # Gradients
//!
//! * At a kink the gradient is PyTorch's: 0 for `relu`, `abs`, `clamp` by numbers, `hardtanh`, `relu6` and the shrinks;
//!   the left slope for `leaky_relu`, `prelu`, `elu` and their kind.
//! * Equal arguments of `maximum` and `minimum` share the gradient, and so do equal largest elements in
//!   [`max_dim`](crate::Tensor::max_dim) and `norm` of infinity, and elements equal to the
//!   [`median`](crate::Tensor::median) of all. The first one takes it in
//!   [`max_with_index`](crate::Tensor::max_with_index) and max pooling, the one that is named in `cummax` and
//!   [`median_dim`](crate::Tensor::median_dim).
//! * `std` and `norm` have gradient 0 where they are 0. `round`, `floor` and their kind have gradient 0 everywhere, and
//!   so has whatever is computed from integers, bools or comparisons.
//! * A gradient is a graph: it can be differentiated again. Of products that `scatter_reduce` forms the second
//!   derivative is right where no element is 0.
//!
//! # Empty tensors
//!
//! * Any axis may have size 0, and a tensor from none to eight axes. An index into an axis of size 0 panics, unless it
//!   is empty, too.
//! * An empty sum is 0, an empty product 1, an empty mean NaN, an empty `any` false, an empty `all` true, and an empty
//!   `logsumexp` -infinity. `max`, `min`, `argmax`, `argmin` and `median` of nothing panic.
//! * `var` and `std` of no more elements than the correction are NaN or infinite.
//!
//! # Threads
//!
//! A tensor can be sent to and shared between threads. Tracing only adds nodes, so threads may build on one tensor at
//! the same time; the stage, [`no_grad`](crate::no_grad) and a step's trace belong to the thread that set them. Which
//! of two threads computes a value first does not show in the value: the order of summation is fixed by shapes and
//! device (on GPUs the mean of a long row also by whether its variance is computed with it). That an index was out of
//! range is reported to whichever thread reads from the device next, which may not be the one whose index it was; the
//! error names the line. Random draws are numbered in the order in which they are traced, so a program that draws from
//! several threads is reproducible only if it fixes that order.
