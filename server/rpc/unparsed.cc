#include "server/rpc/unparsed.h"

#include <map>
#include <optional>

#include "base/strings.h"
#include "base/utf8.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "server/rpc/message_cost.h"

namespace lightcone::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::io::CodedInputStream;
using WireFormat = google::protobuf::internal::WireFormatLite;

// Name of a field inside the field `path`.
std::string PathOf(const std::string& path, const FieldDescriptor& field, std::map<int, int>* counts) {
  std::string name = StrCat(path, path.empty() ? "" : ".", field.name());
  if (field.is_repeated()) name += StrCat("[", (*counts)[field.number()]++, "]");
  return name;
}

std::string NoWireFormat(const std::string& path) {
  return StrCat(path.empty() ? "its bytes are" : StrCat("field '", path, "' is"), " not in the wire format");
}

// Each function answers nothing where every message has the wire format and every text is UTF-8.
std::optional<std::string> WhatIsWrong(const Descriptor& type, CodedInputStream* in, const std::string& path,
                                       int depth);

std::optional<std::string> WhatIsWrongIn(const FieldDescriptor& field, CodedInputStream* in, const std::string& path,
                                         std::map<int, int>* counts, int depth) {
  int length = 0;
  if (!in->ReadVarintSizeAsInt(&length) || length > in->BytesUntilLimit()) return NoWireFormat(path);
  if (field.type() == FieldDescriptor::TYPE_MESSAGE) {
    const CodedInputStream::Limit limit = in->PushLimit(length);
    if (auto wrong = WhatIsWrong(*field.message_type(), in, PathOf(path, field, counts), depth + 1)) return wrong;
    in->PopLimit(limit);
    return std::nullopt;
  }
  if (field.type() != FieldDescriptor::TYPE_STRING) {
    return in->Skip(length) ? std::nullopt : std::optional(NoWireFormat(path));
  }
  std::string text;
  if (!in->ReadString(&text, length)) return NoWireFormat(path);
  const std::string name = PathOf(path, field, counts);
  const auto at = FirstNotUtf8(text);
  if (!at) return std::nullopt;
  return StrCat("field '", name, "' is no UTF-8: byte ", *at, " is ", HexByte(text[*at]));
}

std::optional<std::string> WhatIsWrong(const Descriptor& type, CodedInputStream* in, const std::string& path,
                                       int depth) {
  if (depth > kMessageDepthMax) {
    return StrCat(path.empty() ? "its bytes are" : StrCat("field '", path, "' is"), " nested deeper than ",
                  kMessageDepthMax);
  }
  std::map<int, int> counts;  // by field number
  while (const uint32_t tag = in->ReadTag()) {
    const FieldDescriptor* const field = type.FindFieldByNumber(WireFormat::GetTagFieldNumber(tag));
    const bool has_length = WireFormat::GetTagWireType(tag) == WireFormat::WIRETYPE_LENGTH_DELIMITED;
    if (field == nullptr || !has_length) {
      if (!WireFormat::SkipField(in, tag)) return NoWireFormat(path);
    } else if (auto wrong = WhatIsWrongIn(*field, in, path, &counts, depth)) {
      return wrong;
    }
  }
  return in->ConsumedEntireMessage() ? std::nullopt : std::optional(NoWireFormat(path));
}

}  // namespace

std::string WhyUnparsed(const Descriptor& type, google::protobuf::io::ZeroCopyInputStream* input, int size) {
  CodedInputStream in(input);
  in.PushLimit(size);
  return WhatIsWrong(type, &in, "", /*depth=*/0).value_or("its bytes are not in the wire format");
}

}  // namespace lightcone::server
