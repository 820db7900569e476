use std::io::Write;

use rcgen::{CertificateParams, KeyPair, PKCS_RSA_SHA256, RsaKeySize};
use serde_json::Value;

use super::*;

fn pem() -> String {
    let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).expect("a key");
    let certificate = CertificateParams::new(vec!["headcount".to_owned()]).and_then(|it| it.self_signed(&key));
    format!("{}{}", certificate.expect("a certificate").pem(), key.serialize_pem())
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("written");
    file
}

fn certificate(file: &tempfile::NamedTempFile, encrypted: bool) -> Result<Certificate, CertificateError> {
    Certificate::new(file.path().to_owned(), encrypted, "https://login.test/", "tenant", "client".to_owned())
}

#[tokio::test]
async fn an_assertion_names_client_audience_and_certificate() {
    let file = file(&pem());
    let certificate = certificate(&file, false).expect("a certificate");
    let assertion = certificate.secret(None).await.expect("an assertion");
    let parts: Vec<_> = assertion.split('.').collect();
    assert_eq!(parts.len(), 3);
    let read = |part: &str| -> Value {
        let padded = format!("{part}{}", "=".repeat((4 - part.len() % 4) % 4));
        let bytes = azure_core::base64::decode_url_safe(padded).expect("base64");
        serde_json::from_slice(&bytes).expect("JSON")
    };
    let (header, claims) = (read(parts[0]), read(parts[1]));
    assert_eq!((&header["alg"], &header["typ"]), (&"PS256".into(), &"JWT".into()));
    assert_eq!(header["x5t#S256"].as_str().map(str::len), Some(43));
    assert_eq!(claims["aud"], "https://login.test/tenant/oauth2/v2.0/token");
    assert_eq!((&claims["iss"], &claims["sub"]), (&"client".into(), &"client".into()));
    assert_eq!(claims["exp"].as_u64().zip(claims["nbf"].as_u64()).map(|(to, from)| to - from), Some(600));
    let other = certificate.secret(None).await.expect("an assertion");
    assert_ne!(read(other.split('.').nth(1).expect("claims"))["jti"], claims["jti"]);
}

#[test]
fn an_unusable_certificate_is_reported_at_the_start() {
    let error = certificate(&file("not pem"), false).expect_err("no certificate");
    assert!(error.to_string().contains("openssl pkcs12"), "{error}");
    certificate(&file(&pem()), true).expect_err("a password means an encrypted file, which is not supported");
    let missing = Certificate::new("/nowhere/at/all".into(), false, "a", "b", "c".to_owned());
    assert!(matches!(missing, Err(CertificateError::File { .. })));
}
