// The names by which clients may call the HTTP port. A page of another site can point its own name at this server's
// address (DNS rebinding); its requests then carry that name in the header Host. Threads: immutable.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace lightcone::server {

class HostNames {
 public:
  // Addresses and localhost, which are always known.
  HostNames() : HostNames("") {}
  // And `more`: a list of names with commas. Ports in it do not count.
  explicit HostNames(std::string_view more);

  // PERMISSION_DENIED naming the header for a name that is not known. `host` is the header's value, with a port or not.
  absl::Status Check(std::string_view host) const;

 private:
  std::vector<std::string> names_;  // in lower case
};

}  // namespace lightcone::server
