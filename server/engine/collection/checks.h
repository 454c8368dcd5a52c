// Checks of what applications name and send: item ids, payloads, names of collections, request ids, options.
// Threads: pure functions. Errors: INVALID_ARGUMENT in the form "field 'F' is V; allowed: A".
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/engine/api/types.h"
#include "server/engine/collection/meta.h"

namespace lightcone::server {

// A text id has 1 .. bytes_max bytes of UTF-8; a number is always allowed. `field`: "items[3].id".
absl::Status CheckItemId(const ItemId& id, int64_t bytes_max, std::string_view field);

// A JSON object (RFC 8259) of at most bytes_max bytes, nested at most 64 deep. Names the byte where it goes wrong.
absl::Status CheckPayload(std::string_view json, int64_t bytes_max, std::string_view field);

// 1 .. 128 of [A-Za-z0-9._-]. `field`: "name", "alias".
absl::Status CheckName(std::string_view name, std::string_view field);
// Names that older servers allowed stay usable: a new one is neither '.' nor '..', nor like an option of a command.
absl::Status CheckNewName(std::string_view name, std::string_view field);

// At most 128 bytes of UTF-8; empty: the call is not idempotent.
absl::Status CheckRequestId(std::string_view request_id);

// DEADLINE_EXCEEDED when the deadline is over, CANCELLED when the caller has gone. `step`: "search".
absl::Status CheckAlive(const CallContext& context, std::string_view step);

// What an operator gives with `force`: a text, and in any case at most 4,096 bytes of UTF-8.
absl::Status CheckReason(bool force, const std::string& reason);
// At most 128 bytes of UTF-8.
absl::Status CheckOperatorName(const std::string& name);

// A short text that differs when the content does: what a request id stands for.
std::string DigestOf(std::string_view content);

// FAILED_PRECONDITION, which names both: the caller's `model` is another one than the generation's. A caller names it
// as "model", or as "model@revision" where the generation has one. An empty `model`, or a generation without one, is
// not checked.
absl::Status CheckModel(const GenerationRecord& generation, const std::string& model);

// 0 .. kTtlMaxMs milliseconds.
absl::Status CheckTtl(int64_t ttl_ms, std::string_view field);

// 1 <= count <= count_max, else "field 'items' is empty ..." or "field 'items' is 10001 long ...".
absl::Status CheckCount(size_t count, int64_t count_max, std::string_view field);

}  // namespace lightcone::server
