#include "cli/json/field_json.h"

#include <algorithm>
#include <cctype>

#include "absl/time/time.h"
#include "base/dcheck.h"
#include "cli/formats/ids.h"
#include "client/client.h"

namespace lightcone::cli {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

OrderedJson MessageJson(const Message& message, bool present) {
  if (const auto* time = dynamic_cast<const google::protobuf::Timestamp*>(&message)) return TimeJson(present, *time);
  if (const auto* id = dynamic_cast<const v1::ItemId*>(&message)) return ItemIdJson(*id);
  if (const auto* vector = dynamic_cast<const v1::Vector*>(&message)) {
    const auto values = client::VectorOf(*vector);
    return values.ok() ? OrderedJson(*values) : OrderedJson(nullptr);
  }
  OrderedJson json = OrderedJson::object();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = message.GetDescriptor()->field(i);
    json[field->name()] = FieldJson(message, *field);
  }
  return json;
}

OrderedJson ElementJson(const Message& message, const FieldDescriptor& field, int i) {
  const auto* reflection = message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection->GetRepeatedUInt32(message, &field, i);
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection->GetRepeatedString(message, &field, i);
    default:
      LC_DCHECK(field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE);
      return MessageJson(reflection->GetRepeatedMessage(message, &field, i), true);
  }
}

}  // namespace

std::string EnumText(const EnumDescriptor& type, int number) {
  const auto* value = type.FindValueByNumber(number);
  if (value == nullptr) return "unknown";
  // The first enumerator is PREFIX_UNSPECIFIED.
  std::string text = value->name().substr(type.value(0)->name().size() - std::string_view("UNSPECIFIED").size());
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

OrderedJson TimeJson(bool present, const google::protobuf::Timestamp& time) {
  if (!present) return nullptr;
  const absl::Time when = absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E*SZ", when, absl::UTCTimeZone());
}

OrderedJson FieldJson(const Message& message, const FieldDescriptor& field) {
  const auto* reflection = message.GetReflection();
  if (field.is_repeated()) {
    OrderedJson all = OrderedJson::array();
    for (int i = 0; i < reflection->FieldSize(message, &field); ++i) all.push_back(ElementJson(message, field, i));
    return all;
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection->GetInt32(message, &field);
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection->GetUInt32(message, &field);
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection->GetInt64(message, &field);
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection->GetUInt64(message, &field);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return reflection->GetFloat(message, &field);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection->GetDouble(message, &field);
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection->GetBool(message, &field);
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection->GetString(message, &field);
    case FieldDescriptor::CPPTYPE_ENUM:
      return EnumText(*field.enum_type(), reflection->GetEnumValue(message, &field));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return MessageJson(reflection->GetMessage(message, &field), reflection->HasField(message, &field));
  }
  return nullptr;
}

OrderedJson FieldsJson(const Message& message, const std::vector<std::string>& names) {
  OrderedJson json = OrderedJson::object();
  for (const std::string& name : names) {
    const bool optional = name.back() == '?';
    const FieldDescriptor* field =
        message.GetDescriptor()->FindFieldByName(optional ? name.substr(0, name.size() - 1) : name);
    LC_DCHECK(field != nullptr);
    if (!optional || message.GetReflection()->HasField(message, field))
      json[field->name()] = FieldJson(message, *field);
  }
  return json;
}

}  // namespace lightcone::cli
