use proptest::prelude::*;

use super::*;
use crate::properties::{config, pieces};

const KNOWN: &[&str] = &[
    "\n",
    " ",
    "  ",
    "- ",
    "[",
    "]",
    "{",
    "}",
    ":",
    "=",
    ",",
    "\"",
    "'",
    "#",
    "--x",
    "registerWithTaints",
    "key: a",
    "effect: NoSchedule",
    "--node-labels",
    "--register-with-taints",
    "a=b:NoExecute",
    "[settings.kubernetes.node-taints]\n",
    "node-labels",
    "maxPods",
    "maxPodsExpression: \"58\"",
    "kubeReserved",
    "evictionHard",
    "--kube-reserved",
    "--eviction-hard",
    "memory.available<5%",
    "memory: 1Gi",
    "memory=$X",
    "[settings.kubernetes.kube-reserved]\n",
    "[settings.kubernetes]\nmax-pods",
    "localStorage",
    "strategy: RAID0",
    "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n\n",
    "\n--x\n",
    "Content-Transfer-Encoding: base64\n\n",
    "&a ",
    "*a",
];

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_user_data_is_read_and_only_plain_labels_taints_and_figures_come_out(text in pieces(KNOWN)) {
        let encoded = aws_smithy_types::base64::encode(&text);
        let read = UserData::read(Some(&encoded));
        let taints = read.taints.iter().map(|taint| (&taint.key, &taint.value));
        for (key, value) in read.labels.iter().chain(taints) {
            let is_plain = |text: &str| text.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_./".contains(letter));
            prop_assert!(!key.is_empty() && is_plain(key) && is_plain(value), "{key}={value}");
        }
        let KubeletReserves { kube, system, eviction } = read.kubelet_reserves;
        for (name, figures) in kube.iter().chain(&system).chain(&eviction) {
            let is_figure = |text: &String| text.chars().all(|letter| letter.is_ascii_alphanumeric() || ".+-%".contains(letter));
            prop_assert!(!figures.written.is_empty() && figures.written.iter().all(is_figure), "{name}: {figures:?}");
        }
    }

    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..64), gzip in any::<bool>()) {
        let mut user_data = if gzip { vec![0x1f, 0x8b, 8, 0] } else { Vec::new() };
        user_data.extend(bytes);
        let _read = UserData::read(Some(&aws_smithy_types::base64::encode(user_data)));
    }
}
