//! What a cloud that stands before another one passes on unchanged.

/// The methods of [`headcount::cloud::Cloud`] that call nothing, passed on to the cloud in the field `cloud`.
macro_rules! pass_on_what_calls_nothing {
    () => {
        fn recognise(&self, id: &str) -> headcount::cloud::Recognition {
            self.cloud.recognise(id)
        }

        fn placeholder(&self, reading: &headcount::cloud::GroupReading, label: &str) -> headcount::cloud::ProviderId {
            self.cloud.placeholder(reading, label)
        }

        fn family(&self) -> headcount::cloud::Family {
            self.cloud.family()
        }

        fn now(&self) -> std::time::SystemTime {
            self.cloud.now()
        }
    };
}
