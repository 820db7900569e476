use super::*;
use class::classes;

fn host(family: Family, type_name: &str) -> Host<'_> {
    let operating_system = OperatingSystem::Linux;
    Host {
        family,
        type_name,
        architecture: None,
        operating_system,
        image: None,
        is_encrypted: false,
        learned_missing_kib: None,
        overhead: None,
    }
}

fn left_mib(host: &Host<'_>, nominal_mib: u64) -> u64 {
    reported(host, Quantity::mebibytes(nominal_mib).unwrap()).whole() >> 20
}

fn class_of(family: Family, type_name: &str) -> Option<&'static str> {
    class_name(&host(family, type_name))
}

/// A type of each class, and one of none.
const TYPES: [(Family, &str); 11] = [
    (Family::Aws, "m4.10xlarge"),
    (Family::Aws, "t3.2xlarge"),
    (Family::Aws, "m5.metal"),
    (Family::Aws, "m6i.large"),
    (Family::Aws, "c7a.large"),
    (Family::Aws, "m7g.large"),
    (Family::Aws, "g6.8xlarge"),
    (Family::Aws, "x9.large"),
    (Family::Azure, "Standard_D16ds_v5"),
    (Family::Azure, "Standard_D8ds_v9"),
    (Family::Azure, "nonsense"),
];

#[test]
fn a_type_is_in_the_class_of_its_generation() {
    for (type_name, expected) in [
        ("t2.micro", Some("Xen")),
        ("r4.16xlarge", Some("Xen")),
        ("t3a.nano", Some("burstable")),
        ("m5dn.24xlarge", Some("Nitro, generation 5")),
        ("c5.metal", Some("Nitro, generation 5")),
        ("r5ad.large", Some("Nitro, generation 5")),
        ("m7i-flex.large", Some("Intel, generations 6 and 7")),
        ("r7iz.large", Some("Intel, generations 6 and 7")),
        ("i4i.large", Some("Intel, generations 6 and 7")),
        ("hpc6a.48xlarge", Some("AMD, generations 6 and 7")),
        ("m6a.large", Some("AMD, generations 6 and 7")),
        ("t4g.nano", Some("Graviton 2 and 3")),
        ("im4gn.16xlarge", Some("Graviton 2 and 3")),
        ("c7gn.large", Some("Graviton 2 and 3")),
        ("p3dn.24xlarge", Some("accelerated")),
        ("inf2.xlarge", Some("accelerated")),
        ("inf1.xlarge", None),
        ("p3.2xlarge", None),
        ("m8g.large", None),
        ("m3.large", None),
        ("m10a.large", None),
        ("u-6tb1.metal", None),
        ("a1.medium", None),
        ("", None),
    ] {
        assert_eq!(class_of(Family::Aws, type_name), expected, "{type_name}");
    }
    for (type_name, expected) in [
        ("Standard_DS2_v2", Some("Azure, x86")),
        ("standard_ds2_v2_promo", Some("Azure, x86")),
        ("Standard_E8-4ds_v5", Some("Azure, x86")),
        ("Standard_NC24ads_A100_v4", Some("Azure, x86")),
        ("Standard_NC6", Some("Azure, x86")),
        ("Standard_D8s_v6", None),
        ("Standard_M64", None),
        ("Standard_", None),
        ("Basic_A1", None),
    ] {
        assert_eq!(class_of(Family::Azure, type_name), expected, "{type_name}");
    }
}

#[test]
fn an_architecture_that_the_name_does_not_promise_makes_a_type_unknown() {
    let arm = Some(Architecture::Arm64);
    assert!(class_name(&Host { architecture: arm, ..host(Family::Aws, "m6g.large") }).is_some());
    for (family, type_name) in [(Family::Aws, "g5g.xlarge"), (Family::Azure, "Standard_D2ps_v5")] {
        assert!(class_name(&Host { architecture: arm, ..host(family, type_name) }).is_none(), "{type_name}");
    }
}

#[test]
fn more_memory_never_means_a_lower_estimate() {
    for (family, type_name) in TYPES {
        let host = host(family, type_name);
        let steps = (0..40 * 1024).step_by(8).chain((40 * 1024..4 << 20).step_by(1024));
        let estimates: Vec<u64> = steps.map(|nominal_mib| left_mib(&host, nominal_mib)).collect();
        assert!(estimates.is_sorted(), "{type_name}");
    }
}

#[test]
fn a_node_keeps_some_of_its_memory_and_not_too_much() {
    for (family, type_name) in TYPES {
        for nominal_mib in [4096, 8192, 16384, 32768, 65536, 1 << 20, 24 << 20] {
            let left = left_mib(&host(family, type_name), nominal_mib);
            // Linux describes every page in 64 bytes.
            assert!(left < nominal_mib - nominal_mib / 64, "{type_name} {nominal_mib}");
            assert!(left > nominal_mib * 84 / 100, "{type_name} {nominal_mib}: {left}");
        }
        assert_eq!(left_mib(&host(family, type_name), 2), 0);
        assert!(left_mib(&host(family, type_name), u64::MAX >> 21) > 0);
    }
}

#[test]
fn an_unknown_type_is_estimated_as_the_one_that_keeps_the_most() {
    for (unknown_family, unknown) in [(Family::Aws, "x9.large"), (Family::Azure, "Standard_X2_v9")] {
        assert_eq!(class_of(unknown_family, unknown), None);
        for (family, type_name) in TYPES.into_iter().filter(|(family, _)| *family == unknown_family) {
            for nominal_mib in [1024, 2048, 4096, 8192, 16384, 65536, 1 << 20] {
                let careful = left_mib(&host(unknown_family, unknown), nominal_mib);
                assert!(careful <= left_mib(&host(family, type_name), nominal_mib), "{type_name} {nominal_mib}");
            }
        }
    }
}

#[test]
fn an_inf1_is_not_estimated_above_the_node_that_is_known() {
    let estimate = reported(&host(Family::Aws, "inf1.xlarge"), Quantity::mebibytes(8192).unwrap());
    assert!(estimate.whole() <= 7_847_964 << 10, "{estimate}");
}

#[test]
fn classes_have_names_of_their_own() {
    for family in [Family::Aws, Family::Azure] {
        let mut names: Vec<_> = classes(family).iter().map(|class| class.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), classes(family).len());
    }
}

#[test]
fn windows_reports_what_is_sold_on_azure() {
    let windows = |family| Host { operating_system: OperatingSystem::Windows, ..host(family, "Standard_NC4as_T4_v3") };
    assert_eq!(left_mib(&windows(Family::Azure), 28 * 1024), 28 * 1024 - 1);
    // No such node on AWS is known.
    let careful = host(Family::Aws, "unknown");
    assert_eq!(left_mib(&windows(Family::Aws), 32768), left_mib(&careful, 32768));
}

/// Linux bounces all input and output of a guest whose memory is encrypted through 6 % of its memory, 1 GiB at most.
#[test]
fn a_confidential_vm_keeps_a_share_of_its_memory_for_bounce_buffers() {
    for (plain, confidential, nominal_gib, more_mib) in [
        ("Standard_D4as_v5", "Standard_DC4as_v5", 16, 983 - 64),
        ("Standard_D2as_v5", "Standard_DC2ads_v5", 8, 491 - 64),
        ("Standard_D96ds_v6", "Standard_DC96eds_v6", 384, 1024 - 64),
        ("Standard_L96ias_v5", "Standard_EC96ias_v5", 672, 1024 - 64),
        ("Standard_NX40ads_H100_v5", "Standard_NCC40ads_H100_v5", 320, 1024 - 64),
        // Enclaves of SGX encrypt no guest.
        ("Standard_E4s_v2", "Standard_DC4s_v3", 32, 0),
    ] {
        let left = |name| left_mib(&host(Family::Azure, name), nominal_gib << 10);
        assert!(left(plain).abs_diff(left(confidential) + more_mib) <= 1, "{confidential}");
    }
    // Nodes of the type were observed, but without encryption.
    for (type_name, nominal_gib, more_mib) in [("m6a.large", 8, 491 - 64), ("r6a.48xlarge", 1536, 1024 - 64)] {
        let encrypted = Host { is_encrypted: true, ..host(Family::Aws, type_name) };
        let plain = left_mib(&host(Family::Aws, type_name), nominal_gib << 10);
        assert!(plain.abs_diff(left_mib(&encrypted, nominal_gib << 10) + more_mib) <= 1, "{type_name}");
    }
    let seen = Host { learned_missing_kib: Some(900 << 10), ..host(Family::Azure, "Standard_DC4as_v5") };
    let class = left_mib(&host(Family::Azure, "Standard_DC4as_v5"), 16 << 10);
    assert!(left_mib(&seen, 16 << 10).abs_diff(class) < 128, "what a node has shown includes it");
}

#[test]
fn a_configured_overhead_replaces_the_estimate() {
    let given = |type_name, architecture| Host {
        overhead: Some("7.5%".parse().unwrap()),
        architecture: Some(architecture),
        ..host(Family::Aws, type_name)
    };
    // Karpenter's figures for m5.large and m6g.large, before reserves of 674 MiB: 6903 and 6844.
    assert_eq!(left_mib(&given("m5.large", Architecture::Amd64), 8192), 6903 + 674);
    assert_eq!(left_mib(&given("m6g.large", Architecture::Arm64), 8192), 6844 + 674);
    let azure = Host { family: Family::Azure, ..given("Standard_D2ps_v5", Architecture::Arm64) };
    assert_eq!(left_mib(&azure, 8192), 6903 + 674);
    let none = Host { overhead: Some("0%".parse().unwrap()), ..host(Family::Aws, "x9.large") };
    assert_eq!(left_mib(&none, 8192), 8192);
}

#[test]
fn an_overhead_is_a_percentage_below_a_hundred() {
    for (text, shown) in [("7.5%", "7.5%"), (" 10%", "10%"), ("0%", "0%"), ("99.999%", "99.999%"), ("03.050%", "3.05%")]
    {
        assert_eq!(text.parse::<Overhead>().unwrap().to_string(), shown);
    }
    for text in ["7.5", "", "%", ".5%", "5.%", "-1%", "1e1%", "7.5 %", "0.0001%", "7,5%", "+1%"] {
        assert_eq!(text.parse::<Overhead>(), Err(OverheadError::Malformed(text.to_owned())), "{text}");
    }
    for text in ["100%", "750%", "99999999999999999999%"] {
        assert_eq!(text.parse::<Overhead>(), Err(OverheadError::Whole(text.to_owned())), "{text}");
    }
}

#[test]
fn the_shipped_figures_can_be_read() {
    let figures = Figures::parse(include_str!("../../../instance-types/memory.yaml")).unwrap();
    assert_eq!(&figures, Figures::shipped());
    assert!(Kernel::ALL.iter().all(|kernel| figures.kernels.contains_key(kernel)));
    assert!(figures.aws.len() > 40 && figures.azure.len() > 10);
    assert!(Figures::parse("kernels: {}\naws: {}\nazure: {}\nother: 1").is_err());
}

#[test]
fn releases_of_kernels_are_told_apart() {
    for (release, core_os, kernel) in [
        ("3.10.0-1160.el7.x86_64", false, Some(Kernel::RedHat7)),
        ("4.14.177-139.254.amzn2.x86_64", false, Some(Kernel::Linux4)),
        ("4.18.0-372.19.1.el8_6.x86_64", true, Some(Kernel::Linux4)),
        ("4.18.0-372.19.1.el8_6.x86_64", false, Some(Kernel::RedHat8)),
        ("5.14.0-427.el9.x86_64", false, Some(Kernel::RedHat8)),
        ("5.11.0-1028-aws", false, Some(Kernel::Linux5)),
        ("5.15.0-1030-aws", false, Some(Kernel::Linux5Late)),
        ("6.12.58-82.121.amzn2023.x86_64", false, Some(Kernel::Linux6)),
        ("6.18.38-73.137.amzn2023.x86_64", false, Some(Kernel::Linux6Late)),
        ("7.0.1", false, Some(Kernel::Linux6Late)),
        ("10.0.17763.3887", false, None),
        ("unknown", false, None),
        ("", false, None),
    ] {
        assert_eq!(Kernel::of_release(release, core_os), kernel, "{release}");
    }
}

#[test]
fn the_worst_host_counts_for_types_that_run_on_two_kinds() {
    // Of m5.8xlarge, only nodes on the hosts that lack less were observed.
    let nominal = Quantity::mebibytes(128 * 1024).unwrap();
    let figure = |type_name, learned_missing_kib| {
        host_figure(&Host { learned_missing_kib, ..host(Family::Aws, type_name) }, nominal)
    };
    let class = HostFigure::Class("Nitro, generation 5");
    assert_eq!(figure("m5.8xlarge", None), class);
    assert_eq!(figure("m5.8xlarge", Some(1600 * 1024)), class);
    assert_eq!(figure("m5.8xlarge", Some(4000 * 1024)), HostFigure::Learned);
    assert_eq!(figure("m5.xlarge", None), HostFigure::Observed { nodes: 18 });
}

#[test]
fn what_a_node_showed_counts_for_types_that_nobody_observed() {
    let learned = |type_name, learned_missing_kib| Host { learned_missing_kib, ..host(Family::Aws, type_name) };
    let (careful, showed) = (learned("m9x.large", None), learned("m9x.large", Some(100 * 1024)));
    assert!(left_mib(&showed, 8192) > left_mib(&careful, 8192));
    let worse = learned("t3.medium", Some(200 * 1024));
    assert!(left_mib(&worse, 4096) < left_mib(&learned("t3.medium", None), 4096));
    let better = learned("t3.medium", Some(0));
    assert_eq!(left_mib(&better, 4096), left_mib(&learned("t3.medium", None), 4096), "the worst host wins");
}

#[test]
fn a_report_and_an_estimate_are_inverse() {
    let figures = Figures::shipped();
    for nominal_mib in [1024, 4096, 16384, 1 << 20] {
        for missing_kib in [0, 48 * 1024, 1024 * 1024 / 3] {
            let nominal_kib = nominal_mib * 1024;
            let reported = figures.unbiased_kib(Kernel::Linux5Late, missing_kib, nominal_kib);
            let again = figures.missing_by_report_kib(Some(Kernel::Linux5Late), nominal_kib, reported);
            assert!((again - missing_kib).abs() <= 4, "{nominal_mib} {missing_kib}: {again}");
        }
    }
}
