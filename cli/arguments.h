// Values of flags that several subcommands share. Threads: all functions are safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lightcone/v1/retrieval.pb.h"

namespace lightcone::cli {

// "0.1,0.2" (commas or spaces) or a JSON array. INVALID_ARGUMENT names the element.
absl::StatusOr<std::vector<float>> ParseVectorText(const std::string& text);

// "" or "durable", or "process".
absl::StatusOr<v1::Durability> ParseDurability(const std::string& text);

// Parses the text form of a filter (cli/formats/filter_parser.h).
absl::Status SetFilter(const std::string& text, v1::Filter* filter);

// Each text by ParseItemId.
absl::Status AddIds(const std::vector<std::string>& texts, google::protobuf::RepeatedPtrField<v1::ItemId>* ids);

// The bytes of an image file of at most 32 MiB.
absl::Status SetImage(const std::string& path, v1::RawInput* input);

}  // namespace lightcone::cli
