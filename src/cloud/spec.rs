//! `min:max:name`, the way `--nodes` names a group on every cloud.

use std::str::FromStr;

use thiserror::Error;

/// A node group that the configuration names, with its bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeGroupSpec {
    /// The minimum number of nodes.
    pub min: u32,
    /// The greatest number of nodes, not below `min`.
    pub max: u32,
    /// The group's name in its cloud.
    pub name: String,
}

/// What is wrong with a `min:max:name`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SpecError {
    /// Not three fields.
    #[error("node group {0:?} is not of the form min:max:name, for instance 1:10:my-group")]
    NotThreeFields(String),
    /// A bound is not a number.
    #[error("node group {spec:?}: {field} {value:?} is not a whole number from 0 to 2147483647")]
    BadBound {
        /// The whole text.
        spec: String,
        /// `min` or `max`.
        field: &'static str,
        /// The offending field.
        value: String,
    },
    /// The bounds are the wrong way round.
    #[error("node group {spec:?}: min {min} is greater than max {max}")]
    MinAboveMax {
        /// The whole text.
        spec: String,
        /// The lower bound.
        min: u32,
        /// The upper bound.
        max: u32,
    },
    /// No name.
    #[error("node group {0:?} has no name; write min:max:name")]
    NoName(String),
}

impl FromStr for NodeGroupSpec {
    type Err = SpecError;

    fn from_str(spec: &str) -> Result<Self, SpecError> {
        let mut fields = spec.splitn(3, ':');
        let (Some(min), Some(max), Some(name)) = (fields.next(), fields.next(), fields.next()) else {
            return Err(SpecError::NotThreeFields(spec.to_owned()));
        };
        let bound = |field, value: &str| {
            // The protocol's sizes are int32.
            value
                .trim()
                .parse::<u32>()
                .ok()
                .filter(|bound| *bound <= i32::MAX.unsigned_abs())
                .ok_or_else(|| SpecError::BadBound { spec: spec.to_owned(), field, value: value.to_owned() })
        };
        let (min, max) = (bound("min", min)?, bound("max", max)?);
        if min > max {
            return Err(SpecError::MinAboveMax { spec: spec.to_owned(), min, max });
        }
        let name = name.trim();
        if name.is_empty() {
            return Err(SpecError::NoName(spec.to_owned()));
        }
        Ok(Self { min, max, name: name.to_owned() })
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_has_bounds_and_a_name() {
        assert_eq!("1:5:test-asg".parse(), Ok(NodeGroupSpec { min: 1, max: 5, name: "test-asg".into() }));
        assert_eq!("0:5:a:b".parse::<NodeGroupSpec>().map(|spec| spec.name), Ok("a:b".into()));
    }

    #[test]
    fn a_bad_spec_says_what_is_wrong() {
        for (spec, expected) in [
            ("a", "form min:max:name"),
            ("a:b:c", "min \"a\" is not a whole number"),
            ("1:", "form min:max:name"),
            ("1:2:", "has no name"),
            ("5:2:x", "min 5 is greater than max 2"),
            ("-1:2:x", "min \"-1\" is not a whole number"),
            ("0:4294967295:x", "max \"4294967295\" is not a whole number"),
        ] {
            let error = spec.parse::<NodeGroupSpec>().expect_err(spec).to_string();
            assert!(error.contains(expected), "{spec}: {error}");
        }
    }
}
