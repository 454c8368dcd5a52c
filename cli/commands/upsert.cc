#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/formats/ids.h"
#include "cli/json/message_json.h"

namespace lightcone::cli {
namespace {

struct UpsertFlags {
  std::string collection, id, vector, image, payload, durability;
  uint32_t generation = 0;
  std::optional<uint64_t> expected_sequence;
  bool same_content = false, keep_input = false;
};

absl::Status RunUpsert(Context& context, const UpsertFlags& flags) {
  v1::UpsertRequest request;
  request.set_collection(flags.collection);
  request.set_generation(flags.generation);
  request.set_same_content(flags.same_content);
  request.set_keep_input(flags.keep_input);
  LC_ASSIGN_OR_RETURN(const v1::Durability durability, ParseDurability(flags.durability));
  request.set_durability(durability);
  v1::Item* item = request.add_items();
  LC_ASSIGN_OR_RETURN(*item->mutable_id(), ParseItemId(flags.id));
  item->set_payload_json(flags.payload);
  if (flags.expected_sequence) item->set_expected_sequence(*flags.expected_sequence);
  if (flags.vector.empty() == flags.image.empty()) return InvalidArgument("give one of --vector and --image");
  if (!flags.vector.empty()) {
    LC_ASSIGN_OR_RETURN(const std::vector<float> values, ParseVectorText(flags.vector));
    client::SetVector(values.data(), static_cast<int64_t>(values.size()), item->mutable_vector());
  } else {
    LC_RETURN_IF_ERROR(SetImage(flags.image, item->mutable_input()));
  }
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  LC_ASSIGN_OR_RETURN(const v1::UpsertResponse response, client->Upsert(request));
  if (response.outdated_size() > 0) {
    return absl::AbortedError(StrCat("item ", flags.id, " was not written: its sequence is not --expected-sequence ",
                                     flags.expected_sequence.value_or(0)));
  }
  if (context.json) {
    context.PrintJson({{"sequence", response.sequence()},
                       {"generation", response.generation()},
                       {"items", response.items()},
                       {"durability", response.durability() == v1::DURABILITY_PROCESS ? "process" : "durable"}});
  } else {
    context.Print(StrCat("wrote item ", flags.id, " by generation ", response.generation(), ", sequence ",
                         response.sequence(), "\n"));
  }
  return absl::OkStatus();
}

}  // namespace

void AddUpsert(CLI::App& root, Context& context) {
  auto flags = std::make_shared<UpsertFlags>();
  CLI::App* app = AddCommand(root, "upsert", "Write one item (for many, see import)");
  app->add_option("collection", flags->collection, "Collection or alias")->required();
  app->add_option("id", flags->id, "Digits are a number, anything else a name; \"42\" in quotes is a name")->required();
  app->add_option("--vector", flags->vector, "The encoder's output before the clip: 0.1,0.2,... or a JSON array");
  app->add_option("--image", flags->image, "PNG, JPEG or WebP file that the server embeds");
  app->add_option("--payload", flags->payload, "A JSON object");
  app->add_option("--generation", flags->generation, "That embedded the vector; 0: the active one");
  app->add_flag("--same-content", flags->same_content, "Another model's embedding of what is stored already");
  app->add_option("--expected-sequence", flags->expected_sequence,
                  "Write only while the item's sequence is this one; 0: while there is no such item")
      ->check(CLI::NonNegativeNumber);
  app->add_flag("--keep-input", flags->keep_input, "Keep the image, so that later generations can embed it");
  app->add_option("--durability", flags->durability, "durable (default): after fsync; process: survives kill -9");
  app->callback([&context, flags] { context.Finish(RunUpsert(context, *flags)); });
}

}  // namespace lightcone::cli
