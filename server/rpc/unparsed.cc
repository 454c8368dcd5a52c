#include "server/rpc/unparsed.h"

#include <map>
#include <optional>

#include "base/strings.h"
#include "base/utf8.h"
#include "google/protobuf/unknown_field_set.h"

namespace lightcone::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;

constexpr int kDepthMax = 100;  // nested messages that protobuf parses

// Nothing where every message has the wire format and every text is UTF-8.
std::optional<std::string> WhatIsWrong(const google::protobuf::Descriptor& type, std::string_view bytes,
                                       const std::string& path, int depth) {
  const std::string where = path.empty() ? "its bytes are" : StrCat("field '", path, "' is");
  if (depth > kDepthMax) return StrCat(where, " nested deeper than ", kDepthMax);
  UnknownFieldSet fields;
  if (!fields.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return StrCat(where, " not in the wire format");
  }
  std::map<int, int> counts;  // by field number
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField& field = fields.field(i);
    const FieldDescriptor* const known = type.FindFieldByNumber(field.number());
    if (known == nullptr || field.type() != UnknownField::TYPE_LENGTH_DELIMITED) continue;
    std::string name = StrCat(path, path.empty() ? "" : ".", std::string(known->name()));
    if (known->is_repeated()) name += StrCat("[", counts[field.number()]++, "]");
    const std::string& content = field.length_delimited();
    if (known->type() == FieldDescriptor::TYPE_MESSAGE) {
      if (auto wrong = WhatIsWrong(*known->message_type(), content, name, depth + 1)) return wrong;
    } else if (known->type() == FieldDescriptor::TYPE_STRING) {
      if (const auto at = FirstNotUtf8(content)) {
        return StrCat("field '", name, "' is no UTF-8: byte ", *at, " is ", HexByte(content[*at]));
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::string WhyUnparsed(const google::protobuf::Descriptor& type, std::string_view bytes) {
  return WhatIsWrong(type, bytes, "", 1).value_or("its bytes are not in the wire format");
}

}  // namespace lightcone::server
