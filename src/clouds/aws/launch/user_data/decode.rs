//! Decodes user data as EC2 returns it (base64, gzip, MIME) into its text, within a bound.

use std::io::Read;

use flate2::read::GzDecoder;

/// Longest user data that is read, in base64. EC2 accepts 16 KiB, which is 22 KiB in base64.
pub(super) const ENCODED_MAX: usize = 64 * 1024;
/// Longest text that compressed user data may become. 16 KiB of gzip can become 16 MiB; scripts and settings shrink to
/// a tenth at best.
pub(super) const TEXT_MAX: usize = crate::limits::USER_DATA.bytes;
/// What gzip starts with.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The text of user data; empty if it is too long or not text.
pub(super) fn text(encoded: &str) -> String {
    if encoded.len() > ENCODED_MAX {
        return String::new();
    }
    let mut left = TEXT_MAX;
    let decoded = aws_smithy_types::base64::decode(encoded.trim()).ok();
    let text = decoded.and_then(|bytes| inflated(bytes, &mut left)).unwrap_or_default();
    match boundary(&text) {
        Some(boundary) => joined_parts(&text, boundary, &mut left),
        None => text,
    }
}

/// Decompresses gzip, as cloud-init does. `None` if the text would be longer than `left`, or is not text.
fn inflated(bytes: Vec<u8>, left: &mut usize) -> Option<String> {
    let bytes = if bytes.starts_with(&GZIP) {
        let mut inflated = Vec::new();
        let limit = u64::try_from(*left).ok()?.checked_add(1)?;
        GzDecoder::new(bytes.as_slice()).take(limit).read_to_end(&mut inflated).ok()?;
        inflated
    } else {
        bytes
    };
    *left = left.checked_sub(bytes.len())?;
    String::from_utf8(bytes).ok()
}

/// The boundary of MIME multipart user data.
fn boundary(text: &str) -> Option<&str> {
    let head = text.lines().map(str::trim_end).take_while(|line| !line.is_empty());
    let value = head.filter_map(|line| line.split_once("boundary=")).map(|(_, value)| value).next()?;
    let value = match value.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next()?,
        None => value.split([';', ' ']).next()?,
    };
    Some(value).filter(|value| !value.is_empty())
}

/// The bodies of all parts, decoded and one after another.
fn joined_parts(text: &str, boundary: &str, left: &mut usize) -> String {
    let is_delimiter = |line: &str| {
        line.strip_prefix("--").is_some_and(|rest| rest.trim_end_matches('-') == boundary.trim_end_matches('-'))
    };
    let mut parts: Vec<Vec<&str>> = vec![Vec::new()];
    for line in text.lines().map(str::trim_end) {
        match parts.last_mut() {
            Some(part) if !is_delimiter(line) => part.push(line),
            _ => parts.push(Vec::new()),
        }
    }
    let bodies = parts.iter().skip(1).map(|part| {
        let head = part.iter().position(|line| !is_header(line)).unwrap_or(part.len());
        let (head, body) = part.split_at(head);
        if !head.iter().any(|line| is_base64(line)) {
            return body.join("\n");
        }
        let decoded = aws_smithy_types::base64::decode(body.concat()).ok();
        decoded.and_then(|bytes| inflated(bytes, left)).unwrap_or_default()
    });
    bodies.fold(String::new(), |joined, body| joined + &body + "\n")
}

/// Whether a line of a part belongs to its head. The user data that EKS merges for its own AMIs has no empty line after
/// it (terraform-aws-eks #1770), and cloud-init reads that too.
fn is_header(line: &str) -> bool {
    let is_name = |name: &str| !name.is_empty() && !name.contains(char::is_whitespace);
    line.starts_with([' ', '\t']) || line.split_once(':').is_some_and(|(name, _)| is_name(name))
}

fn is_base64(header: &str) -> bool {
    let (name, value) = header.split_once(':').unwrap_or_default();
    name.eq_ignore_ascii_case("content-transfer-encoding") && value.trim().eq_ignore_ascii_case("base64")
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn encode(bytes: &[u8]) -> String {
        aws_smithy_types::base64::encode(bytes)
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(text).expect("memory");
        encoder.finish().expect("memory")
    }

    #[test]
    fn compressed_user_data_is_read() {
        assert_eq!(text(&encode(&gzip(b"maxPods: 17\n"))), "maxPods: 17\n");
    }

    #[test]
    fn user_data_that_is_too_long_or_not_text_is_not_read() {
        let bomb = gzip(&vec![b'a'; 64 * TEXT_MAX]);
        assert!(bomb.len() < ENCODED_MAX / 2, "{} bytes", bomb.len());
        let long = vec![b' '; ENCODED_MAX];
        for bytes in [&bomb[..], &long, &[0x1f, 0x8b, 0xff], &[0xff, 0xfe]] {
            assert_eq!(text(&encode(bytes)), "");
        }
        assert_eq!(text("not base64!"), "");
    }

    #[test]
    fn a_part_without_an_empty_line_after_its_head_is_read() {
        let merged = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\n\
                      Content-Type: text/x-shellscript;\n charset=\"us-ascii\"\n#!/bin/bash\nset -ex\n\
                      /etc/eks/bootstrap.sh a --kubelet-extra-args '--max-pods=20'\n--//--\n";
        let read = text(&encode(merged.as_bytes()));
        assert_eq!(read, "#!/bin/bash\nset -ex\n/etc/eks/bootstrap.sh a --kubelet-extra-args '--max-pods=20'\n\n");
    }

    #[test]
    fn parts_are_decoded_and_share_one_bound() {
        let part = |body: &[u8]| format!("--x\nContent-Transfer-Encoding: BASE64\n\n{}\n", encode(body));
        let head = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"x\"\n\n";
        let read = |parts: &str| text(&encode(format!("{head}{parts}--x--\n").as_bytes()));
        let plain = "--x\r\nContent-Type: text/x-shellscript\r\n\r\n--max-pods=5\r\n";
        assert_eq!(read(&format!("{plain}{}", part(b"a"))), "\n--max-pods=5\na\n\n");
        let half = gzip(&vec![b'a'; TEXT_MAX / 2]);
        let bombs = read(&part(&half).repeat(8));
        assert!(bombs.len() < TEXT_MAX, "{}", bombs.len());
    }
}
