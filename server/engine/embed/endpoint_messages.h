// The JSON of OpenAI's `POST /v1/embeddings`: what is asked, and vectors out of what is answered. The endpoint's answer
// is taken for what it may be: every count and number is checked. Threads: pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/engine/collection/endpoint_manifest.h"
#include "server/engine/embed/embed_frames.h"

namespace lightcone::server {

// REQUIRES: texts in UTF-8.
std::string EncodeEndpointRequest(const EndpointManifest& endpoint, std::span<const std::string> texts);

// The longest answer with so many vectors.
size_t EndpointAnswerBytesMax(size_t texts, int dimension);
// Texts of one request whose answer is short enough to be held in memory, at least 1.
size_t EndpointTextsMax(const EndpointManifest& endpoint, int dimension);

// One vector a text in order, or the text's error: INTERNAL: another length than `dimension`, or a number that is not
// finite. The outer status, INTERNAL: no JSON, not so many vectors, or places that do not count the texts.
absl::StatusOr<EmbeddedInputs> DecodeEndpointAnswer(std::string_view body, size_t texts, int dimension);

// What an endpoint says about a refusal, for people: `error.message` of its answer without the key, cut short; empty:
// nothing.
std::string EndpointErrorText(std::string_view body, const std::string& key);

}  // namespace lightcone::server
