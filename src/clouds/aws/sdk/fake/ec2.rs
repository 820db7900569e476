//! The EC2 API of the fake.

use super::*;

#[async_trait]
impl Ec2Api for Fake {
    async fn describe_image(&self, id: &str) -> Result<Option<Image>, CloudError> {
        self.call("DescribeImages", id, |state| state.images.get(id).cloned())
    }

    async fn describe_instance_types(
        &self,
        names: &[String],
        token: Option<String>,
    ) -> Result<DescribeInstanceTypesOutput, CloudError> {
        assert!(names.len() <= 100, "AWS takes 100 names");
        let known = |state: &State, name: &String| state.types.contains(name);
        let unknown: Vec<_> =
            self.state(|state| names.iter().filter(|name| !known(state, name)).cloned().collect::<Vec<_>>());
        let response = self.call("DescribeInstanceTypes", &names.join(","), |state| {
            let asked = if names.is_empty() { state.types.clone() } else { names.to_vec() };
            let (names, next) = page(&asked, token, state.page);
            let info = |name: &String| {
                InstanceTypeInfo::builder()
                    .instance_type(InstanceType::from(name.as_str()))
                    .v_cpu_info(VCpuInfo::builder().default_v_cpus(2).build())
                    .memory_info(MemoryInfo::builder().size_in_mib(8192).build())
                    .build()
            };
            let infos = names.iter().map(info).collect();
            DescribeInstanceTypesOutput::builder().set_instance_types(Some(infos)).set_next_token(next).build()
        })?;
        if unknown.is_empty() {
            return Ok(response);
        }
        let message = format!("The following supplied instance types do not exist: [{}]", unknown.join(", "));
        Err(fault("DescribeInstanceTypes", "types", "InvalidInstanceType", &message, 400))
    }

    async fn describe_launch_templates(
        &self,
        ids: &[String],
        token: Option<String>,
    ) -> Result<DescribeLaunchTemplatesOutput, CloudError> {
        assert!((1..=200).contains(&ids.len()), "AWS takes 1 to 200 IDs");
        let number = |state: &State, id: &String, version: &str| {
            state.templates.get(&format!("{id}@{version}")).and_then(|described| described.version_number)
        };
        let (described, missing) = self.call("DescribeLaunchTemplates", &ids.join(","), |state| {
            let exists = |id: &&String| state.templates.keys().any(|key| key.split('@').next() == Some(id.as_str()));
            let missing = ids.iter().find(|id| !exists(id)).cloned();
            let template = |id: &String| {
                LaunchTemplate::builder()
                    .launch_template_id(id)
                    .set_default_version_number(number(state, id, "$Default"))
                    .set_latest_version_number(number(state, id, "$Latest"))
                    .build()
            };
            let shown = ids.iter().filter(|id| !state.hidden_templates.contains(*id)).map(template);
            let (templates, next) = page(&shown.collect::<Vec<_>>(), token, state.page);
            let output = DescribeLaunchTemplatesOutput::builder().set_launch_templates(Some(templates));
            (output.set_next_token(next).build(), missing)
        })?;
        let Some(missing) = missing else { return Ok(described) };
        let message = format!("The specified launch template, with template ID {missing}, does not exist.");
        Err(fault("DescribeLaunchTemplates", &missing, "InvalidLaunchTemplateId.NotFound", &message, 400))
    }

    async fn describe_launch_template_version(
        &self,
        template: &TemplateKey,
        version: &str,
    ) -> Result<Option<LaunchTemplateVersion>, CloudError> {
        let key = format!("{}@{version}", template.as_str());
        self.call("DescribeLaunchTemplateVersions", &key, |state| state.templates.get(&key).cloned())
    }

    async fn get_instance_types_from_instance_requirements(
        &self,
        architectures: &[ArchitectureType],
        virtualization: &[VirtualizationType],
        requirements: &InstanceRequirementsRequest,
        token: Option<String>,
    ) -> Result<GetInstanceTypesFromInstanceRequirementsOutput, CloudError> {
        assert_eq!(virtualization, [VirtualizationType::Hvm]);
        self.call("GetInstanceTypesFromInstanceRequirements", "requirements", |state| {
            state.requirements.push((architectures.to_vec(), requirements.clone()));
            let (names, next) = page(&state.types, token, state.page);
            let info = |name: &String| InstanceTypeInfoFromInstanceRequirements::builder().instance_type(name).build();
            let infos = names.iter().map(info).collect();
            let output = GetInstanceTypesFromInstanceRequirementsOutput::builder();
            output.set_instance_types(Some(infos)).set_next_token(next).build()
        })
    }

    async fn zone_names(&self) -> Result<HashMap<String, String>, CloudError> {
        let named = |letter: &str, number: u8| (format!("use1-az{number}"), format!("us-east-1{letter}"));
        self.call("DescribeAvailabilityZones", "", |_| [named("a", 4), named("b", 6), named("c", 1)].into())
    }

    async fn describe_spot_price_history(
        &self,
        _at: SystemTime,
        _extent: PriceExtent,
        token: Option<String>,
    ) -> Result<DescribeSpotPriceHistoryOutput, CloudError> {
        self.call("DescribeSpotPriceHistory", "all", |state| {
            let (prices, next) = page(&state.spot_prices, token, state.page);
            let next = Some(next.unwrap_or_default());
            DescribeSpotPriceHistoryOutput::builder().set_spot_price_history(Some(prices)).set_next_token(next).build()
        })
    }
}
