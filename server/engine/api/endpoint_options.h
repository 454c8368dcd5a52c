// What the operator allows and sets for encoders that are endpoints: servers elsewhere that embed texts.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace lightcone::server {

struct EndpointOptions {
  // Hosts that the server may call, "host" (at the scheme's own port) or "host:port". Empty: none.
  std::vector<std::string> hosts;
  std::string keys_folder;  // folder with the files of keys, as absolute path; empty: keys come from no file
  // Tests change what follows.
  int tries = 4;                                   // tries of one request
  absl::Duration pause = absl::Milliseconds(200);  // pause before the second try; doubled before each next
  absl::Duration pause_max = absl::Seconds(30);    // longest pause, also where the endpoint asks for one
  int failures_max = 5;                            // consecutive failures at which an endpoint counts as down
  absl::Duration rest = absl::Seconds(5);          // time for which an endpoint that is down is not called
  absl::Duration idle_max = absl::Minutes(5);      // lifetime of connections to an endpoint without texts
};

}  // namespace lightcone::server
