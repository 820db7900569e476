// Reads the field of node templates that upstream has proposed (kubernetes/autoscaler#10303) and that no release reads yet: the
// ResourceSlices of a new node. tests/autoscaler/run adds this file to the client of a copy of the autoscaler's module.
package externalgrpc

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	resourceapi "k8s.io/api/resource/v1"
)

// The field's number in proto/externalgrpc.proto.
const resourceSliceField = 3

// resourceSlices returns the slices in a response whose generated type does not know them.
func resourceSlices(response proto.Message) ([]*resourceapi.ResourceSlice, error) {
	var slices []*resourceapi.ResourceSlice
	for rest := response.ProtoReflect().GetUnknown(); len(rest) > 0; {
		number, kind, value, err := nextField(rest)
		if err != nil {
			return nil, err
		}
		rest = rest[len(rest)-value.after:]
		if number != resourceSliceField || kind != protowire.BytesType {
			continue
		}
		bytes, length := protowire.ConsumeBytes(value.bytes)
		if length < 0 {
			return nil, protowire.ParseError(length)
		}
		slice := &resourceapi.ResourceSlice{}
		if err := slice.Unmarshal(bytes); err != nil {
			return nil, err
		}
		slices = append(slices, slice)
	}
	return slices, nil
}

// fieldValue is the encoded value of a field, and how many bytes follow it.
type fieldValue struct {
	bytes []byte
	after int
}

func nextField(encoded []byte) (protowire.Number, protowire.Type, fieldValue, error) {
	number, kind, tag := protowire.ConsumeTag(encoded)
	if tag < 0 {
		return 0, 0, fieldValue{}, protowire.ParseError(tag)
	}
	length := protowire.ConsumeFieldValue(number, kind, encoded[tag:])
	if length < 0 {
		return 0, 0, fieldValue{}, protowire.ParseError(length)
	}
	return number, kind, fieldValue{encoded[tag : tag+length], len(encoded) - tag - length}, nil
}
