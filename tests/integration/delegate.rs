//! The methods that a cloud in front of another one passes on unchanged.

/// Passes the methods of [`headcount::cloud::Cloud`] that make no calls on to the cloud in the field `cloud`.
macro_rules! pass_on_what_calls_nothing {
    () => {
        fn recognise(&self, id: &str) -> headcount::cloud::Recognition {
            self.cloud.recognise(id)
        }

        fn family(&self) -> headcount::cloud::Family {
            self.cloud.family()
        }

        fn now(&self) -> std::time::SystemTime {
            self.cloud.now()
        }
    };
}
