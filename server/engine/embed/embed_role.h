// What an input is embedded for. Endpoints may want texts of queries and of items told apart; a backfill's items are
// documents that nobody waits for.
#pragma once

namespace lightcone::server {

enum class EmbedRole { kQuery, kDocument, kBackfill };

}  // namespace lightcone::server
