use super::*;

fn canonical(text: &str) -> String {
    text.parse::<Quantity>().unwrap().to_string()
}

#[test]
fn quantities_are_written_as_kubernetes_writes_them() {
    for (text, expected) in [
        ("0", "0"),
        ("-0", "0"),
        ("0Gi", "0"),
        ("16Gi", "16Gi"),
        ("16384Mi", "16Gi"),
        ("1.5Gi", "1536Mi"),
        ("1023Ki", "1023Ki"),
        ("512", "512"),
        ("0.5Ki", "512"),
        ("0.1Ki", "102400m"),
        ("1930m", "1930m"),
        ("2000m", "2"),
        ("0.5", "500m"),
        (".5", "500m"),
        ("5.", "5"),
        ("+5", "5"),
        ("-5", "-5"),
        ("100M", "100M"),
        ("1500k", "1500k"),
        ("1500000", "1500k"),
        ("20G", "20G"),
        ("1E", "1E"),
        ("1e3", "1e3"),
        ("1E3", "1e3"),
        ("12e-3", "12e-3"),
        ("100e0", "100"),
        ("1.0000000000000000000000", "1"),
        ("29423880765440m", "29423880765440m"),
        ("7Ei", "7Ei"),
        ("9223372036854775807", "9223372036854775807"),
        ("1n", "1n"),
    ] {
        assert_eq!(canonical(text), expected, "{text}");
    }
}

#[test]
fn a_text_that_is_not_a_quantity_is_rejected() {
    for text in ["", "GG", "1 Gi", "1gi", "1Kib", "1.2.3", ".", "1e", "1e+", "1e1000", "--1", "+-1", "1_000", "0x10"] {
        assert!(matches!(text.parse::<Quantity>(), Err(QuantityError::Malformed(_))), "{text}");
    }
    for text in ["8Ei", "9223372036854775808", "1e19", "1e99", "99999999999999999999999999999999999999999"] {
        assert!(matches!(text.parse::<Quantity>(), Err(QuantityError::Overflow(_))), "{text}");
    }
    for text in ["0.1n", "1e-10", "0.00000000001", "1e-99"] {
        assert!(matches!(text.parse::<Quantity>(), Err(QuantityError::TooFine(_))), "{text}");
    }
    assert!(matches!("1".repeat(65).parse::<Quantity>(), Err(QuantityError::TooLong(65))));
}

#[test]
fn arithmetic_keeps_the_suffix_style_and_never_goes_below_zero() {
    let parse = |text: &str| text.parse::<Quantity>().unwrap();
    assert_eq!(parse("2").less(parse("70m")).to_string(), "1930m");
    assert_eq!(parse("8Gi").less(parse("574Mi")).to_string(), "7618Mi");
    assert_eq!(parse("1Gi").less(parse("2Gi")).to_string(), "0");
    assert_eq!(Quantity::ZERO.plus(parse("1Gi")).to_string(), "1Gi");
    assert_eq!(parse("1Ki"), parse("1024"));
    assert_eq!(parse("1Ki").min(parse("1k")).to_string(), "1k");
    assert_eq!(parse("2500m").whole(), 2);
    assert_eq!(parse("2500m").whole_millis(), 2500);
    assert_eq!(Quantity::mebibytes(8192).unwrap().to_string(), "8Gi");
    assert_eq!(Quantity::mebibytes(u64::MAX), None);
}
