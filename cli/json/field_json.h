// Fields of the server's answers as JSON, by the names that the wire gives them. Threads: all functions are safe.
#pragma once

#include <google/protobuf/generated_enum_reflection.h>
#include <google/protobuf/message.h>
#include <google/protobuf/timestamp.pb.h>

#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace lightcone::cli {

using OrderedJson = nlohmann::ordered_json;

// The enumerator's name without the prefix of its enum, in lower case: "lorentz". "unknown" for any other number.
std::string EnumText(const google::protobuf::EnumDescriptor& type, int number);
template <typename Enum>
std::string EnumName(Enum value) {
  return EnumText(*google::protobuf::GetEnumDescriptor<Enum>(), value);
}

// "2026-01-31T12:00:00Z"; null when absent.
OrderedJson TimeJson(bool present, const google::protobuf::Timestamp& time);

// An enumerator by its name, a time by TimeJson, an item's id as a number or a text, a vector as an array, another
// message as an object of all its fields.
OrderedJson FieldJson(const google::protobuf::Message& message, const google::protobuf::FieldDescriptor& field);

// An object of the named fields, in this order. A name that ends in '?' stands only for a field that is set.
OrderedJson FieldsJson(const google::protobuf::Message& message, const std::vector<std::string>& names);

template <typename Messages>
OrderedJson ListJson(const Messages& messages, const std::vector<std::string>& names) {
  OrderedJson all = OrderedJson::array();
  for (const auto& message : messages) all.push_back(FieldsJson(message, names));
  return all;
}

}  // namespace lightcone::cli
