// A message for any method, by reflection: it names a collection wherever the method takes one. Threads: pure
// functions.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <memory>
#include <string>

#include "absl/strings/str_replace.h"

namespace lightcone::server {

// Names the collection, and a job "7", in every text field that holds such a name, in nested batches too.
inline void FillIn(google::protobuf::Message* message, const std::string& collection) {
  using google::protobuf::FieldDescriptor;
  for (int i = 0; i < message->GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = message->GetDescriptor()->field(i);
    const std::string& name = field->name();
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING && !field->is_repeated()) {
      if (name == "collection" || name == "name" || name == "alias") {
        message->GetReflection()->SetString(message, field, collection);
      }
      if (name == "id") message->GetReflection()->SetString(message, field, "7");
    }
    if (name == "batch") FillIn(message->GetReflection()->MutableMessage(message, field), collection);
  }
}

// REQUIRES: `method` is one of lightcone.v1, "Retrieval/Search", whose file of messages is linked.
inline std::string MessageFor(const std::string& method, const std::string& collection) {
  const auto* descriptor = google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(
      "lightcone.v1." + std::string(absl::StrReplaceAll(method, {{"/", "."}})));
  const auto* type = google::protobuf::MessageFactory::generated_factory()->GetPrototype(descriptor->input_type());
  const std::unique_ptr<google::protobuf::Message> message(type->New());
  FillIn(message.get(), collection);
  return message->SerializeAsString();
}

}  // namespace lightcone::server
