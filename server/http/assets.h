// The console's files, as they were when the program was built (server/http/console/).
// Threads: constant.
#pragma once

#include <span>
#include <string_view>

namespace lightcone::server {

struct Asset {
  std::string_view name;  // "console.css"
  std::string_view bytes;
};

std::span<const Asset> Assets();

}  // namespace lightcone::server
