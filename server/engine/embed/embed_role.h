// What an input is embedded for. Endpoints may want texts of queries and of items told apart.
#pragma once

namespace lightcone::server {

enum class EmbedRole { kQuery, kDocument };

}  // namespace lightcone::server
