// The class of an item, according to its payload.
#pragma once

#include <optional>
#include <string>

namespace lightcone::server {

// The first scalar at the path as a text. Values of different types have different texts. nullopt without a scalar.
// Threads: pure.
std::optional<std::string> ClassOf(const std::string& payload_json, const std::string& path);

}  // namespace lightcone::server
