//! A taint, as a node group puts it on its nodes.

use serde::{Deserialize, Serialize};

/// A node taint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Taint {
    /// The key.
    pub key: String,
    /// The value; may be empty.
    pub value: String,
    /// The effect.
    pub effect: TaintEffect,
}

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TaintEffect {
    /// `NoSchedule`
    NoSchedule,
    /// `PreferNoSchedule`
    PreferNoSchedule,
    /// `NoExecute`
    NoExecute,
}

impl TaintEffect {
    /// The name Kubernetes gives it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }

    /// The effect of that name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::NoSchedule, Self::PreferNoSchedule, Self::NoExecute].into_iter().find(|effect| effect.as_str() == name)
    }
}

impl Taint {
    /// Reads `key=value:Effect` or `key:Effect`.
    pub fn parse(text: &str) -> Option<Self> {
        let (rest, effect) = text.rsplit_once(':')?;
        let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
        let effect = TaintEffect::parse(effect)?;
        (!key.is_empty()).then(|| Self { key: key.to_owned(), value: value.to_owned(), effect })
    }

    /// Reads `value:Effect`, as the value of a `node-template/taint/…` tag has it. The value may be empty.
    pub fn from_tag(key: &str, value: &str) -> Option<Self> {
        let (value, effect) = value.rsplit_once(':')?;
        Some(Self { key: key.to_owned(), value: value.to_owned(), effect: TaintEffect::parse(effect)? })
    }
}
