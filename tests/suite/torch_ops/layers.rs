//! Softmax, normalisation and attention.

use brasa::tensor::Mask;

use super::{Row, one};

pub(crate) fn rows() -> Vec<Row> {
    vec![
        one!("softmax", |x| x[0].softmax(1)),
        one!("log_softmax", |x| x[0].log_softmax(1)),
        one!("softmin", |x| x[0].softmin(1)),
        one!("layer_norm", 64.0, |x| x[0].layer_norm(2, Some(&x[1]), Some(&x[2]), 1e-5)),
        one!("rms_norm", 64.0, |x| x[0].rms_norm(Some(&x[1]), 1e-5)),
        one!("group_norm", 64.0, |x| x[0].group_norm(2, Some(&x[1]), Some(&x[2]), 1e-5)),
        one!("instance_norm", 64.0, |x| x[0].instance_norm(Some(&x[1]), Some(&x[2]), 1e-5)),
        one!("batch_norm", 64.0, |x| x[0].batch_norm(Some(&x[1]), Some(&x[2]), 1e-5).output),
        one!("local_response_norm", |x| x[0].local_response_norm(3, 0.5, 0.6, 0.7)),
        one!("cosine_similarity", |x| x[0].cosine_similarity(&x[1], 1, 1e-8)),
        one!("pairwise_distance", |x| x[0].pairwise_distance(&x[1], 3.0, 1e-6)),
        one!("batch_norm_eval", 64.0, |x| x[0].batch_norm_eval(&x[1], &x[2], Some(&x[3]), Some(&x[4]), 1e-5)),
        one!("attention", |x| x[0].scaled_dot_product_attention(&x[1], &x[2], Mask::None)),
        one!("attention_causal", |x| x[0].scaled_dot_product_attention(&x[1], &x[2], Mask::Causal)),
        one!("attention_bias", |x| x[0].scaled_dot_product_attention(&x[1], &x[2], Mask::Added(&x[3]))),
        one!("attention_mask", |x| x[0].scaled_dot_product_attention(&x[1], &x[2], Mask::Allowed(&x[3]))),
        one!("attention_grouped", |x| x[0].grouped_query_attention(&x[1], &x[2], Mask::None, Some(0.3))),
        one!("linear", |x| x[0].linear(&x[1], Some(&x[2]))),
    ]
}
