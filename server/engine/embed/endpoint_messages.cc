#include "server/engine/embed/endpoint_messages.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "base/dcheck.h"
#include "base/status.h"
#include "base/utf8.h"
#include "base/without_key.h"
#include "nlohmann/json.hpp"

namespace lightcone::server {
namespace {

constexpr size_t kNumberBytes = 32;        // bytes of one number in JSON, with its comma and white space
constexpr size_t kAnswerFrame = 64 << 10;  // bytes of an answer without its numbers
constexpr size_t kNumbersBytesMax = 128 << 20;
constexpr size_t kErrorTextMax = 200;

// Without the parts of a field of the caller's.
absl::Status WrongAnswer(std::string_view field, std::string_view value, std::string_view allowed) {
  return Internal(MessageOf(InvalidField(field, value, allowed)));
}

absl::StatusOr<std::vector<float>> VectorIn(const nlohmann::json& entry, size_t i, int dimension) {
  const auto found = entry.find("embedding");
  const std::string field = StrCat("data[", i, "].embedding");
  const std::string allowed = StrCat(dimension, " numbers, of the generation's manifest");
  if (found == entry.end() || !found->is_array()) {
    return WrongAnswer(field, "no array", allowed);
  }
  if (found->size() != static_cast<size_t>(dimension)) {
    return WrongAnswer(field, StrCat(found->size(), " numbers"), allowed);
  }
  std::vector<float> vector;
  vector.reserve(found->size());
  for (const nlohmann::json& number : *found) {
    const double value = number.is_number() ? number.get<double>() : std::numeric_limits<double>::quiet_NaN();
    if (!(std::abs(value) <= std::numeric_limits<float>::max())) {
      return WrongAnswer(StrCat(field, "[", vector.size(), "]"),
                         number.is_number() ? StrCat(value) : number.type_name(), "a finite number");
    }
    vector.push_back(static_cast<float>(value));
  }
  return vector;
}

}  // namespace

std::string EncodeEndpointRequest(const EndpointManifest& endpoint, std::span<const std::string> texts) {
  LC_DCHECK(std::all_of(texts.begin(), texts.end(), [](const std::string& text) { return IsUtf8(text); }));
  nlohmann::json request = {{"model", endpoint.model}, {"encoding_format", "float"}};
  request["input"] = nlohmann::json::array();
  for (const std::string& text : texts) request["input"].push_back(text);
  if (endpoint.dimensions) request["dimensions"] = *endpoint.dimensions;
  return request.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

size_t EndpointAnswerBytesMax(size_t texts, int dimension) {
  return kAnswerFrame + texts * (static_cast<size_t>(dimension) * kNumberBytes + kNumberBytes * 8);
}

size_t EndpointTextsMax(const EndpointManifest& endpoint, int dimension) {
  const size_t fit = kNumbersBytesMax / (static_cast<size_t>(dimension) * kNumberBytes);
  return std::clamp<size_t>(fit, 1, static_cast<size_t>(endpoint.batch_size));
}

absl::StatusOr<EmbeddedInputs> DecodeEndpointAnswer(std::string_view body, size_t texts, int dimension) {
  const auto json = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return Internal("the answer is no JSON");
  const auto data = json.is_object() ? json.find("data") : json.end();
  if (!json.is_object() || data == json.end() || !data->is_array()) {
    return WrongAnswer("data", "missing or no array", "one entry a text");
  }
  if (data->size() != texts) {
    return WrongAnswer("data", StrCat(data->size(), " entries"), StrCat(texts, ", one a text"));
  }
  std::vector<bool> seen(texts);
  EmbeddedInputs outputs(texts, std::vector<float>());
  for (size_t i = 0; i < texts; ++i) {
    const nlohmann::json& entry = (*data)[i];
    const std::string field = StrCat("data[", i, "]");
    if (!entry.is_object()) return WrongAnswer(field, entry.type_name(), "an object");
    const auto index = entry.find("index");
    const bool is_place = index != entry.end() && index->is_number_unsigned() && index->get<uint64_t>() < texts;
    if (!is_place || seen[index->get<size_t>()]) {
      return WrongAnswer(field + ".index",
                         is_place ? StrCat(index->get<uint64_t>(), " a second time") : "no place of a text",
                         StrCat("0 .. ", texts - 1, ", each once"));
    }
    seen[index->get<size_t>()] = true;
    outputs[index->get<size_t>()] = VectorIn(entry, i, dimension);
  }
  return outputs;
}

std::string EndpointErrorText(std::string_view body, const std::string& key) {
  const auto json = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return "";
  const auto error = json.find("error");
  const nlohmann::json& holder = error != json.end() && error->is_object() ? *error : json;
  const auto message = holder.find("message");
  if (message == holder.end() || !message->is_string()) return "";
  std::string text = WithoutKey(message->get<std::string>(), key);  // before it is cut
  for (char& c : text) {
    if (c >= 0 && c < ' ') c = ' ';
  }
  if (text.size() > kErrorTextMax) text.resize(kErrorTextMax);
  return CleanUtf8(text);
}

}  // namespace lightcone::server
