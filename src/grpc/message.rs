//! The limits of each call's message, checked before it is decoded.
//!
//! A message of a few MiB may decode to a hundred times as much: an empty node takes two bytes on the wire, and some
//! 160 in memory. So a message has a limit of bytes, and one of weight: an upper bound of the memory that it decodes
//! to.

use prost::bytes::Buf;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use crate::limits::{CALL, CALL_WITH_NODE, CALL_WITH_NODES, CALL_WITH_POD, Limit};

/// A gRPC message starts with a flag and its length.
pub(super) const HEAD_BYTES: usize = 5;

/// The largest message of any call, with its head.
pub(super) const BYTES_MAX: usize = CALL_WITH_NODES.bytes + HEAD_BYTES;

/// The parts of a message that take more memory than bytes: each with its field's number, the weight of one, and its
/// own parts.
#[derive(Clone, Copy)]
struct Parts(&'static [(u32, usize, Parts)]);

/// An entry of a map: two strings on the heap, and their place in a table that is half empty.
const ENTRY: usize = 192;
/// A node: its structure, in a list that may have twice the room, and two tables.
const NODE: usize = 512;
/// A container, in a list that may have twice the room.
const CONTAINER: usize = 256;
/// The first leaf of a sorted map.
const SORTED_MAP: usize = 640;

const LEAF: Parts = Parts(&[]);
const NODE_PARTS: Parts = Parts(&[(3, ENTRY, LEAF), (4, ENTRY, LEAF)]);
const RESOURCES: Parts = Parts(&[(2, ENTRY, LEAF)]);
const CONTAINER_PARTS: Parts = Parts(&[(8, SORTED_MAP, RESOURCES)]);
const POD_SPEC: Parts = Parts(&[
    (2, CONTAINER, CONTAINER_PARTS),
    (20, CONTAINER, CONTAINER_PARTS),
    (32, ENTRY, LEAF),
    (40, SORTED_MAP, RESOURCES),
]);
const POD: Parts = Parts(&[(2, SORTED_MAP, POD_SPEC)]);

/// What a call's message may be.
#[derive(Clone, Copy)]
pub(super) struct MessageLimit {
    limit: Limit,
    /// The most memory that it may decode to.
    weight: usize,
    parts: Parts,
    /// Whether the call can do without these parts.
    can_do_without: bool,
}

impl MessageLimit {
    /// The limits of the method that a path names.
    pub(super) fn of(path: &str) -> Self {
        let method = path.rsplit('/').next().unwrap_or_default();
        let (limit, weight, parts) = match method {
            "NodeGroupDeleteNodes" => (CALL_WITH_NODES, 2 * CALL_WITH_NODES.bytes, Parts(&[(1, NODE, NODE_PARTS)])),
            "NodeGroupForNode" | "PricingNodePrice" => {
                (CALL_WITH_NODE, 2 * CALL_WITH_NODE.bytes, Parts(&[(1, NODE, NODE_PARTS)]))
            }
            "PricingPodPrice" => (CALL_WITH_POD, 2 * CALL_WITH_POD.bytes, Parts(&[(1, 0, POD), (4, 0, POD)])),
            _ => (CALL, CALL.bytes, LEAF),
        };
        Self { limit, weight, parts, can_do_without: method == "PricingPodPrice" }
    }

    /// The most bytes of the whole body.
    pub(super) fn body_bytes(&self) -> usize {
        self.limit.bytes + HEAD_BYTES
    }

    /// Whether the message that this body begins announces more bytes than it may have.
    pub(super) fn announces_too_much(&self, body: &[u8]) -> bool {
        announced(body).is_some_and(|bytes| bytes > self.limit.bytes)
    }

    /// Whether more follows the message that this body begins. It would be decoded, too, and has no weight.
    pub(super) fn has_more_than_one(body: &[u8]) -> bool {
        announced(body).is_some_and(|bytes| body.len() - HEAD_BYTES > bytes)
    }

    /// The same body without what makes it heavy; `None` where the call cannot do without that. A pod of thousands of
    /// containers is priced as an empty one: for an error, CA would drop each scale-up that the pod is part of.
    pub(super) fn lightened(&self, body: &[u8]) -> Option<Vec<u8>> {
        if !self.can_do_without {
            return None;
        }
        let mut rest = body.get(HEAD_BYTES..)?;
        let mut kept = Vec::new();
        while rest.has_remaining() {
            let field = rest;
            let (number, wire_type) = decode_key(&mut rest).ok()?;
            skip_field(wire_type, number, &mut rest, DecodeContext::default()).ok()?;
            if !self.parts.0.iter().any(|(heavy, ..)| *heavy == number) {
                kept.extend_from_slice(&field[..field.len() - rest.len()]);
            }
        }
        let length = u32::try_from(kept.len()).ok()?.to_be_bytes();
        Some([&[0], &length[..], &kept].concat())
    }

    /// The memory that a whole body decodes to; `None` if that is too much. What follows a mistake in the message is
    /// not decoded, and has no weight.
    pub(super) fn weigh(&self, body: &[u8]) -> Option<usize> {
        let mut weight = body.len();
        let message = body.get(HEAD_BYTES..).unwrap_or_default();
        let _ended_at_a_mistake = add_parts(message, self.parts, self.weight, &mut weight);
        (weight <= self.weight + HEAD_BYTES).then_some(weight)
    }
}

/// The bytes of the message that a body begins, as its head says. `None` where the head is not whole yet.
fn announced(body: &[u8]) -> Option<usize> {
    let length = body.get(1..HEAD_BYTES)?.try_into().ok().map(u32::from_be_bytes)?;
    Some(usize::try_from(length).unwrap_or(usize::MAX))
}

/// Adds the weight of a message's parts until it is over the limit. `None` if the message ends with a mistake.
fn add_parts(mut message: &[u8], parts: Parts, max: usize, weight: &mut usize) -> Option<()> {
    while message.has_remaining() && *weight <= max {
        let (number, wire_type) = decode_key(&mut message).ok()?;
        let part = parts.0.iter().find(|(field, ..)| *field == number && wire_type == WireType::LengthDelimited);
        let Some((_, each, inner)) = part else {
            skip_field(wire_type, number, &mut message, DecodeContext::default()).ok()?;
            continue;
        };
        *weight += each;
        let length = usize::try_from(decode_varint(&mut message).ok()?).ok()?;
        // A part that is cut off is decoded as far as it goes.
        let (part, rest) = message.split_at(length.min(message.len()));
        message = rest;
        add_parts(part, *inner, max, weight)?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use crate::grpc::proto::{ExternalGrpcNode, NodeGroupDeleteNodesRequest, PricingPodPriceRequest};

    fn body(message: &impl prost::Message) -> Vec<u8> {
        let length = u32::try_from(message.encoded_len()).expect("short").to_be_bytes();
        [&[0], &length[..], &message.encode_to_vec()].concat()
    }

    fn limit_of(method: &str) -> MessageLimit {
        MessageLimit::of(&format!("/clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider/{method}"))
    }

    /// A node with as many labels as nodes have in practice, and long annotations.
    fn mk_node(number: usize, labels: usize) -> ExternalGrpcNode {
        let label = |at: usize| (format!("node.example.com/label-{at}"), "a-value-of-usual-length".to_owned());
        ExternalGrpcNode {
            provider_id: format!("aws:///eu-west-1a/i-{number:017x}"),
            name: format!("ip-10-0-{number}.eu-west-1.compute.internal"),
            labels: (0..labels).map(label).collect(),
            ..Default::default()
        }
    }

    #[test]
    fn a_pod_that_is_too_heavy_is_left_out_and_nothing_else() {
        let request = PricingPodPriceRequest { start_time: vec![1; 12], end_time: vec![2; 12], ..Default::default() };
        let heavy = PricingPodPriceRequest { pod_bytes: vec![3; 100], pod: vec![4; 100], ..request.clone() };
        let lightened = limit_of("PricingPodPrice").lightened(&body(&heavy));
        assert_eq!(lightened, Some(body(&request)));
        assert_eq!(limit_of("NodeGroupForNode").lightened(&body(&heavy)), None);
    }

    #[test]
    fn five_thousand_nodes_that_failed_and_two_thousand_real_ones_may_be_named_at_once() {
        for (nodes, labels) in [(5_000, 1), (2_000, 24)] {
            let nodes = (0..nodes).map(|number| mk_node(number, labels)).collect();
            let body = body(&NodeGroupDeleteNodesRequest { id: "group".into(), nodes });
            let limit = limit_of("NodeGroupDeleteNodes");
            assert!(!limit.announces_too_much(&body) && body.len() <= limit.body_bytes());
            assert!(limit.weigh(&body).is_some());
        }
    }

    #[test]
    fn a_short_message_that_decodes_to_much_is_too_heavy() {
        let empty_nodes = [&[0; HEAD_BYTES][..], &[0x0a, 0].repeat(100_000)].concat();
        assert_eq!(limit_of("NodeGroupDeleteNodes").weigh(&empty_nodes), None);
        let node = [0x1a, 0].repeat(50_000);
        let one_node = body(&First { part: node });
        assert_eq!(limit_of("NodeGroupForNode").weigh(&one_node), None, "empty labels");
        let spec = Second { part: [0x12, 0].repeat(50_000) }.encode_to_vec();
        let pod = PricingPodPriceRequest { pod: spec, ..Default::default() };
        assert_eq!(limit_of("PricingPodPrice").weigh(&body(&pod)), None, "empty containers");
    }

    #[test]
    fn a_message_that_announces_too_much_is_refused_before_it_arrives() {
        let announced = |bytes: u32| [&[0][..], &bytes.to_be_bytes()].concat();
        let limit = limit_of("NodeGroupTargetSize");
        assert!(limit.announces_too_much(&announced(64 * 1024 + 1)));
        assert!(!limit.announces_too_much(&announced(64 * 1024)));
        assert!(!limit.announces_too_much(&[0, 255, 255]), "not known yet");
        assert!(limit_of("NodeGroupDeleteNodes").announces_too_much(&announced(u32::MAX)));
    }

    #[test]
    fn a_second_message_in_a_body_is_noticed_as_soon_as_it_begins() {
        for (body, has_more) in [
            (&[0, 0, 0, 0, 0][..], false),
            (&[0, 0, 0, 0, 0, 0], true),
            (&[0, 0, 0, 0, 2, 8, 1], false),
            (&[0, 0, 0, 0, 2, 8, 1, 0], true),
            (&[0, 0, 0, 0, 2, 8], false),
            (&[0, 0], false),
        ] {
            assert_eq!(MessageLimit::has_more_than_one(body), has_more, "{body:?}");
        }
    }

    /// A message whose field 1 is raw bytes.
    #[derive(Clone, PartialEq, prost::Message)]
    struct First {
        #[prost(bytes = "vec", tag = "1")]
        part: Vec<u8>,
    }

    /// A message whose field 2 is raw bytes.
    #[derive(Clone, PartialEq, prost::Message)]
    struct Second {
        #[prost(bytes = "vec", tag = "2")]
        part: Vec<u8>,
    }
}
