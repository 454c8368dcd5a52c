// The class of an item, as its payload tells it.
#pragma once

#include <optional>
#include <string>

namespace lightcone::server {

// The first scalar at the path as a text, in which values of different types differ; nullopt without one.
// Threads: pure.
std::optional<std::string> ClassOf(const std::string& payload_json, const std::string& path);

}  // namespace lightcone::server
