#include "server/rpc/message_cost.h"

#include <algorithm>
#include <bit>

#include "absl/container/inlined_vector.h"
#include "base/strings.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/message.h"
#include "google/protobuf/wire_format_lite.h"

namespace lightcone::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::io::CodedInputStream;
using WireFormat = google::protobuf::internal::WireFormatLite;

constexpr int kNoFields = 1;              // place of the type without fields, as which unknown groups are walked
constexpr int kUnknownTally = 0;          // tally of unknown fields
constexpr int64_t kAllocationBytes = 16;  // what the heap adds to an object
constexpr int64_t kTextBytes = 48;        // std::string with its allocation or its entry in the arena's list
constexpr int64_t kPointerBytes = 8;      // pointer to an element that is an object
constexpr size_t kInlineText = 15;        // longest text inside a std::string
constexpr int64_t kUnknownBytes = 40;     // entry of an unknown field, in a vector that grows
constexpr int64_t kUnknownSetBytes = 72;  // what the first unknown field of a message allocates

int64_t TextBytes(size_t length) {
  return kTextBytes + (length > kInlineText ? static_cast<int64_t>(length) + 1 + kAllocationBytes : 0);
}

// Array of `count` elements that grew by doubling. The arrays before it count, too: an arena keeps them. Protobuf
// doubles bytes, the array's header included, so that an array of 2^k bytes holds fewer elements.
int64_t ArrayBytes(uint32_t count, int64_t element) {
  constexpr uint32_t kHeaderElements = 4;
  return static_cast<int64_t>(std::bit_ceil(count + kHeaderElements)) * element * 2 + 2 * kAllocationBytes;
}

}  // namespace

MessageShape::MessageShape(const Descriptor& type, bool arena) : arena_(arena) {
  names_ = {"unknown fields"};
  root_bytes_ = SizeOf(type);
  Add(type);
}

uint32_t MessageShape::SizeOf(const Descriptor& type) const {
  const auto* prototype = google::protobuf::MessageFactory::generated_factory()->GetPrototype(&type);
  return static_cast<uint32_t>(prototype->SpaceUsedLong()) + (arena_ ? 0 : kAllocationBytes);
}

int MessageShape::Add(const Descriptor& type) {
  const auto at = std::find(known_.begin(), known_.end(), &type);
  if (at != known_.end()) return static_cast<int>(at - known_.begin());
  const int place = static_cast<int>(known_.size());
  known_.push_back(&type);
  types_.emplace_back();
  if (place == 0) {
    known_.push_back(nullptr);
    types_.emplace_back();
  }
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& from = *type.field(i);
    Field field;
    field.repeated = from.is_repeated();
    field.wire_type = WireFormat::WireTypeForFieldType(static_cast<WireFormat::FieldType>(from.type()));
    field.tally = static_cast<int>(names_.size());
    names_.push_back(StrCat(type.name(), ".", from.name()));
    switch (from.cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        field.kind = Kind::kMessage;
        field.unit = SizeOf(*from.message_type());
        field.type = Add(*from.message_type());
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        field.kind = Kind::kText;
        break;
      case FieldDescriptor::CPPTYPE_INT64:
      case FieldDescriptor::CPPTYPE_UINT64:
      case FieldDescriptor::CPPTYPE_DOUBLE:
        field.kind = Kind::kScalar;
        field.unit = 8;
        break;
      default:
        field.kind = Kind::kScalar;
        field.unit = 4;
    }
    std::vector<Field>& fields = types_[place].fields;
    if (fields.size() <= static_cast<size_t>(from.number())) fields.resize(from.number() + 1);
    fields[from.number()] = field;
  }
  return place;
}

// One walk. A method returns false where the bytes are not in the wire format.
class MessageWalk {
 public:
  MessageWalk(const MessageShape& shape, CodedInputStream* in)
      : shape_(shape), in_(*in), tallies_(shape.names_.size()) {}

  // `end_group`: number of the group that is walked; 0: a message, which ends at the stream's limit.
  bool Message(int type, int depth, uint32_t end_group) {
    if (depth > kMessageDepthMax) return false;
    const MessageShape::Type& shape = shape_.types_[type];
    absl::InlinedVector<uint32_t, 24> counts(shape.fields.size());  // by number, of repeated fields
    bool any_unknown = false;
    for (;;) {
      const uint32_t tag = in_.ReadTag();
      if (tag == 0) {
        if (end_group != 0 || !in_.ConsumedEntireMessage()) return false;
        break;
      }
      const uint32_t number = tag >> 3, wire_type = tag & 7;
      if (number == 0) return false;
      if (wire_type == WireFormat::WIRETYPE_END_GROUP) {
        if (number != end_group) return false;
        break;
      }
      const MessageShape::Field* const field = number < shape.fields.size() ? &shape.fields[number] : nullptr;
      const bool known =
          field != nullptr && field->kind != MessageShape::Kind::kNone &&
          (wire_type == field->wire_type || (wire_type == WireFormat::WIRETYPE_LENGTH_DELIMITED && field->repeated));
      any_unknown = any_unknown || !known;
      if (!(known ? Known(*field, wire_type, depth, &counts[number]) : Unknown(number, wire_type, depth))) return false;
    }
    if (any_unknown) Take(kUnknownTally, 0, kUnknownSetBytes);
    for (size_t number = 0; number < counts.size(); ++number) {
      if (counts[number] == 0) continue;
      const MessageShape::Field& field = shape.fields[number];
      const int64_t element = field.kind == MessageShape::Kind::kScalar ? field.unit : kPointerBytes;
      Take(field.tally, 0, ArrayBytes(counts[number], element));
    }
    return true;
  }

  MessageCost Cost() const {
    MessageCost cost;
    cost.bytes = shape_.root_bytes_;
    size_t most = 0;
    for (size_t i = 0; i < tallies_.size(); ++i) {
      cost.bytes += tallies_[i].bytes;
      if (tallies_[i].bytes > tallies_[most].bytes) most = i;
    }
    cost.field = shape_.names_[most];
    cost.elements = tallies_[most].elements;
    cost.field_bytes = tallies_[most].bytes;
    return cost;
  }

 private:
  struct Tally {
    int64_t elements = 0, bytes = 0;
  };

  void Take(int tally, int64_t elements, int64_t bytes) {
    tallies_[tally].elements += elements;
    tallies_[tally].bytes += bytes;
  }

  // Length of what follows, which must lie in the message.
  bool ReadLength(int* length) { return in_.ReadVarintSizeAsInt(length) && *length <= in_.BytesUntilLimit(); }

  bool Known(const MessageShape::Field& field, uint32_t wire_type, int depth, uint32_t* count) {
    if (field.kind == MessageShape::Kind::kScalar) {
      uint32_t elements = 1;
      if (wire_type == field.wire_type ? !SkipScalar(wire_type) : !Packed(field.wire_type, &elements)) return false;
      if (field.repeated) *count += elements;
      Take(field.tally, elements, 0);
      return true;
    }
    int length = 0;
    if (!ReadLength(&length)) return false;
    if (field.repeated) ++*count;
    if (field.kind == MessageShape::Kind::kText) {
      Take(field.tally, 1, TextBytes(length));
      return in_.Skip(length);
    }
    Take(field.tally, 1, field.unit);
    const CodedInputStream::Limit limit = in_.PushLimit(length);
    if (!Message(field.type, depth + 1, 0)) return false;
    in_.PopLimit(limit);
    return true;
  }

  bool Unknown(uint32_t number, uint32_t wire_type, int depth) {
    if (wire_type == WireFormat::WIRETYPE_LENGTH_DELIMITED) {
      int length = 0;
      if (!ReadLength(&length)) return false;
      Take(kUnknownTally, 1, kUnknownBytes + TextBytes(length));
      return in_.Skip(length);
    }
    Take(kUnknownTally, 1, kUnknownBytes);
    if (wire_type != WireFormat::WIRETYPE_START_GROUP) return SkipScalar(wire_type);
    Take(kUnknownTally, 0, kUnknownBytes);
    return Message(kNoFields, depth + 1, number);
  }

  bool SkipScalar(uint32_t wire_type) {
    uint64_t ignored = 0;
    switch (wire_type) {
      case WireFormat::WIRETYPE_VARINT:
        return in_.ReadVarint64(&ignored);
      case WireFormat::WIRETYPE_FIXED64:
        return in_.Skip(8);
      case WireFormat::WIRETYPE_FIXED32:
        return in_.Skip(4);
      default:
        return false;
    }
  }

  bool Packed(uint32_t wire_type, uint32_t* elements) {
    int length = 0;
    if (!ReadLength(&length)) return false;
    const int width = wire_type == WireFormat::WIRETYPE_FIXED64 ? 8 : wire_type == WireFormat::WIRETYPE_FIXED32 ? 4 : 0;
    *elements = 0;
    if (width != 0) {
      *elements = static_cast<uint32_t>(length / width);
      return length % width == 0 && in_.Skip(length);
    }
    bool ended = true;  // the last byte seen ends a varint
    while (length > 0) {
      const void* data = nullptr;
      int size = 0;
      if (!in_.GetDirectBufferPointer(&data, &size)) return false;
      size = std::min(size, length);
      const auto* bytes = static_cast<const uint8_t*>(data);
      for (int i = 0; i < size; ++i) *elements += bytes[i] < 0x80 ? 1 : 0;
      ended = bytes[size - 1] < 0x80;
      if (!in_.Skip(size)) return false;
      length -= size;
    }
    return ended;
  }

  const MessageShape& shape_;
  CodedInputStream& in_;
  std::vector<Tally> tallies_;
};

std::optional<MessageCost> MessageShape::CostOf(google::protobuf::io::ZeroCopyInputStream* input, int size) const {
  CodedInputStream in(input);
  const CodedInputStream::Limit whole = in.PushLimit(size);
  MessageWalk walk(*this, &in);
  if (!walk.Message(/*type=*/0, /*depth=*/0, /*end_group=*/0)) return std::nullopt;
  in.PopLimit(whole);
  return walk.Cost();
}

}  // namespace lightcone::server
