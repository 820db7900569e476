//! All integration tests in one binary: each would link the AWS SDK otherwise.

mod fleet;
