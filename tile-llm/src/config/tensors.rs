//! The tensors of a model: names as in Hugging Face's files, and shapes.

use super::{Architecture, ModelConfig};

/// A tensor that the configuration asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// As in the files.
    pub name: String,
    /// Rows and columns, or the length of a norm's weight.
    pub shape: Vec<usize>,
}

impl TensorSpec {
    /// Its elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }
}

/// The names of one layer's tensors; every projection is `[out, in]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// RMSNorm before attention, `[hidden]`.
    pub input_norm: String,
    /// `[q_rows, hidden]`.
    pub q: String,
    /// `[kv_rows, hidden]`.
    pub k: String,
    /// `[kv_rows, hidden]`.
    pub v: String,
    /// `[hidden, q_rows]`.
    pub o: String,
    /// Qwen3: RMSNorm of each head of q, then of k, `[head_dim]` each.
    pub qk_norms: Option<[String; 2]>,
    /// RMSNorm before the feed-forward part, `[hidden]`.
    pub post_norm: String,
    /// `[intermediate, hidden]`.
    pub gate: String,
    /// `[intermediate, hidden]`.
    pub up: String,
    /// `[hidden, intermediate]`.
    pub down: String,
}

impl ModelConfig {
    /// The name of the embedding, `[vocab, hidden]`.
    pub const EMBEDDING: &'static str = "model.embed_tokens.weight";
    /// The name of the last RMSNorm, `[hidden]`.
    pub const FINAL_NORM: &'static str = "model.norm.weight";

    /// The name of the head's tensor, `[vocab, hidden]`: the embedding's where they are tied.
    pub fn head(&self) -> &'static str {
        if self.tie_word_embeddings { ModelConfig::EMBEDDING } else { "lm_head.weight" }
    }

    /// The names of layer `index`'s tensors.
    pub fn layer(&self, index: usize) -> Layer {
        let name = |part: &str| format!("model.layers.{index}.{part}.weight");
        Layer {
            input_norm: name("input_layernorm"),
            q: name("self_attn.q_proj"),
            k: name("self_attn.k_proj"),
            v: name("self_attn.v_proj"),
            o: name("self_attn.o_proj"),
            qk_norms: (self.architecture == Architecture::Qwen3)
                .then(|| [name("self_attn.q_norm"), name("self_attn.k_norm")]),
            post_norm: name("post_attention_layernorm"),
            gate: name("mlp.gate_proj"),
            up: name("mlp.up_proj"),
            down: name("mlp.down_proj"),
        }
    }

    /// Every tensor of the model.
    pub fn tensors(&self) -> Vec<TensorSpec> {
        let (hidden, intermediate) = (self.hidden_size, self.intermediate_size);
        let mut all = Vec::new();
        let mut add = |name: String, shape: &[usize]| all.push(TensorSpec { name, shape: shape.to_vec() });
        add(ModelConfig::EMBEDDING.to_owned(), &[self.vocab_size, hidden]);
        for index in 0..self.num_hidden_layers {
            let layer = self.layer(index);
            add(layer.input_norm, &[hidden]);
            add(layer.q, &[self.q_rows(), hidden]);
            add(layer.k, &[self.kv_rows(), hidden]);
            add(layer.v, &[self.kv_rows(), hidden]);
            add(layer.o, &[hidden, self.q_rows()]);
            for norm in layer.qk_norms.into_iter().flatten() {
                add(norm, &[self.head_dim]);
            }
            add(layer.post_norm, &[hidden]);
            add(layer.gate, &[intermediate, hidden]);
            add(layer.up, &[intermediate, hidden]);
            add(layer.down, &[hidden, intermediate]);
        }
        add(ModelConfig::FINAL_NORM.to_owned(), &[hidden]);
        if !self.tie_word_embeddings {
            add(self.head().to_owned(), &[self.vocab_size, hidden]);
        }
        all
    }
}
