//! What the configuration says of a simulated source.

/// A simulated source: nothing to configure but chance.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Settings {
    /// Seeds everything that happens by chance, so that it happens again.
    pub seed: u64,
}
