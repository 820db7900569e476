//! Reads the raw XML of responses. The SDK replaces a missing size with 0 and takes the end of the bytes for the end of
//! the list, and its output does not show it. It decodes a list as a whole or not at all.

use std::ops::Range;

/// The sizes that a described group must have.
const SIZES: [&[u8]; 3] = [b"MinSize", b"MaxSize", b"DesiredCapacity"];

/// Where a response has its groups.
const GROUPS: &[u8] = b"AutoScalingGroups";

/// The name of a group.
const NAME: &[u8] = b"AutoScalingGroupName";

/// Which of a group's required sizes a response contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::clouds::aws) struct SizesFound {
    pub(in crate::clouds::aws) min: bool,
    pub(in crate::clouds::aws) max: bool,
    pub(in crate::clouds::aws) desired: bool,
}

/// A tag and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag<'a> {
    Open(&'a [u8]),
    Close,
    /// `<name/>`
    Empty,
}

/// Whether every element of the text is closed. Text that is not XML is complete.
pub(in crate::clouds::aws) fn is_complete(text: &[u8]) -> bool {
    if text.trim_ascii_start().first() != Some(&b'<') {
        return true;
    }
    let (mut depth, mut is_begun) = (0_usize, false);
    for (tag, _) in tags(text) {
        match tag {
            Tag::Open(_) => (depth, is_begun) = (depth + 1, true),
            Tag::Close => depth = depth.saturating_sub(1),
            Tag::Empty => is_begun = true,
        }
    }
    is_begun && depth == 0
}

/// Whether this is the root of the text.
pub(in crate::clouds::aws) fn is_root(text: &[u8], name: &[u8]) -> bool {
    match tags(text).next().map(|(tag, _)| tag) {
        Some(Tag::Open(root)) => root == name,
        // Without anything inside, its name is not read.
        Some(Tag::Empty) => text.windows(name.len()).any(|part| part == name),
        _ => false,
    }
}

/// The sizes in each group of a DescribeAutoScalingGroups response, in its order.
pub(in crate::clouds::aws) fn sizes_found(text: &[u8]) -> Vec<SizesFound> {
    let (mut path, mut groups) = (Vec::new(), Vec::new());
    for (tag, _) in tags(text) {
        match tag {
            Tag::Open(name) => {
                path.push(name);
                // The response, its result, the list, a member, and the member's own elements. A warm pool has a
                // MinSize too.
                match path[..] {
                    [_, _, list, b"member"] if list == GROUPS => groups.push(SizesFound::default()),
                    [_, _, list, b"member", size] if list == GROUPS && SIZES.contains(&size) => {
                        if let Some(group) = groups.last_mut() {
                            group.min |= size == SIZES[0];
                            group.max |= size == SIZES[1];
                            group.desired |= size == SIZES[2];
                        }
                    }
                    _ => {}
                }
            }
            Tag::Close => drop(path.pop()),
            Tag::Empty => {}
        }
    }
    groups
}

/// A DescribeAutoScalingGroups response without its groups, and the element of each group.
pub(in crate::clouds::aws) fn split_groups(text: &[u8]) -> (Vec<u8>, Vec<&[u8]>) {
    let groups = elements(text, |path| matches!(path, [_, _, list, b"member"] if *list == GROUPS));
    let (mut rest, mut read) = (Vec::new(), 0);
    for group in &groups {
        rest.extend_from_slice(&text[read..group.start]);
        read = group.end;
    }
    rest.extend_from_slice(&text[read..]);
    (rest, groups.into_iter().map(|group| &text[group]).collect())
}

/// The element with the name of a group.
pub(in crate::clouds::aws) fn name_of_group(group: &[u8]) -> Option<&[u8]> {
    let names = elements(group, |path| matches!(path, [_, name] if *name == NAME));
    names.into_iter().next().map(|name| &group[name])
}

/// Where the elements are that are as deep as their path says, in their order. The path has the names of the elements
/// around each, and its own.
fn elements(text: &[u8], is_one: impl Fn(&[&[u8]]) -> bool) -> Vec<Range<usize>> {
    let (mut path, mut found) = (Vec::new(), Vec::<Range<usize>>::new());
    for (tag, at) in tags(text) {
        match tag {
            Tag::Open(name) => {
                path.push(name);
                if is_one(&path) {
                    found.push(at);
                }
            }
            Tag::Close => {
                if is_one(&path)
                    && let Some(element) = found.last_mut()
                {
                    element.end = at.end;
                }
                path.pop();
            }
            Tag::Empty => {}
        }
    }
    found
}

/// The tags of XML without attributes that contain `>`, as AWS sends it, and where each is.
fn tags(text: &[u8]) -> impl Iterator<Item = (Tag<'_>, Range<usize>)> {
    let mut read = 0;
    std::iter::from_fn(move || {
        loop {
            let start = read + text[read..].iter().position(|byte| *byte == b'<')?;
            let end = start + text[start..].iter().position(|byte| *byte == b'>')?;
            let inside = &text[start + 1..end];
            read = end + 1;
            let name = inside.split(u8::is_ascii_whitespace).next().unwrap_or_default();
            let tag = match (inside.first(), inside.last()) {
                // A declaration or a comment.
                (Some(b'?' | b'!'), _) => continue,
                (Some(b'/'), _) => Tag::Close,
                (_, Some(b'/')) => Tag::Empty,
                _ => Tag::Open(name),
            };
            return Some((tag, start..read));
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_root_of_a_response_is_recognised() {
        let is_root = |text: &str| is_root(text.as_bytes(), b"SetDesiredCapacityResponse");
        assert!(is_root(
            "<?xml version=\"1.0\"?><SetDesiredCapacityResponse xmlns=\"x\"><a/></SetDesiredCapacityResponse>"
        ));
        assert!(is_root("<SetDesiredCapacityResponse/>"));
        for page in
            ["<!doctype html><html><body>SetDesiredCapacityResponse</body></html>", "<ErrorResponse/>", "ok", ""]
        {
            assert!(!is_root(page), "{page}");
        }
    }

    const TWO_GROUPS: &str = "<?xml version=\"1.0\"?>\n<R xmlns=\"http://autoscaling.amazonaws.com/doc/2011-01-01/\"><Result>\
        <AutoScalingGroups><member><MinSize>0</MinSize><MaxSize>1</MaxSize><DesiredCapacity>0</DesiredCapacity><Tags/>\
        </member><member><WarmPoolConfiguration><MinSize>3</MinSize></WarmPoolConfiguration><MaxSize>1</MaxSize>\
        <Instances><member><InstanceId>i-1</InstanceId></member></Instances></member></AutoScalingGroups></Result></R>";

    #[test]
    fn the_sizes_of_each_group_are_found() {
        let all = SizesFound { min: true, max: true, desired: true };
        let some = SizesFound { max: true, ..SizesFound::default() };
        assert_eq!(sizes_found(TWO_GROUPS.as_bytes()), [all, some]);
        assert_eq!(sizes_found(b"<R><Result><AutoScalingGroups/></Result></R>"), []);
    }

    #[test]
    fn the_groups_of_a_response_are_taken_apart() {
        let text = TWO_GROUPS.replace("<Tags/>", "<Tags/><AutoScalingGroupName>a</AutoScalingGroupName>");
        let (rest, groups) = split_groups(text.as_bytes());
        let list = text.find("<member><MinSize>").expect("a group")..text.find("</AutoScalingGroups>").expect("an end");
        assert_eq!(groups.concat(), text.as_bytes()[list.clone()]);
        assert_eq!(rest, [&text.as_bytes()[..list.start], &text.as_bytes()[list.end..]].concat());
        let name = "<AutoScalingGroupName>a</AutoScalingGroupName>";
        assert_eq!(groups.iter().map(|group| name_of_group(group)).collect::<Vec<_>>(), [Some(name.as_bytes()), None]);
        let none = b"<R><Result><AutoScalingGroups/></Result></R>";
        assert_eq!(split_groups(none), (none.to_vec(), Vec::new()));
    }

    #[test]
    fn a_text_that_ends_early_is_not_complete() {
        assert!(
            is_complete(TWO_GROUPS.as_bytes())
                && is_complete(b"{\"json\": 1}")
                && is_complete(b"")
                && is_complete(b"<R/>")
        );
        let bytes = TWO_GROUPS.as_bytes();
        let early = (1..bytes.len()).find(|end| is_complete(&bytes[..*end]));
        assert_eq!(early, None, "no beginning of it is complete");
    }

    proptest! {
        #![proptest_config(crate::properties::config())]

        #[test]
        fn any_text_is_read_without_a_panic(text in crate::properties::pieces(
            &["<", ">", "/", "?", "member", "MinSize", "AutoScalingGroups", " ", "R"]
        )) {
            let _complete = is_complete(text.as_bytes());
            let sizes = sizes_found(text.as_bytes());
            let (rest, groups) = split_groups(text.as_bytes());
            prop_assert_eq!(groups.len(), sizes.len());
            prop_assert_eq!(rest.len() + groups.concat().len(), text.len());
            let _names: Vec<_> = groups.into_iter().map(name_of_group).collect();
        }
    }
}
