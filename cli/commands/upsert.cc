#include <optional>
#include <string>

#include "base/status.h"
#include "cli/arguments.h"
#include "cli/command_table.h"
#include "cli/formats/ids.h"
#include "cli/json/message_json.h"

namespace lightcone::cli {
namespace {

struct UpsertFlags {
  std::string collection, id, vector, image, text, made_by, payload, durability;
  uint32_t generation = 0;
  std::optional<uint64_t> expected_sequence, ttl_ms;
  bool same_content = false, keep_input = false, keep_payload = false;
};

absl::Status RunUpsert(Context& context, const UpsertFlags& flags) {
  auto request = RequestOf<v1::UpsertRequest>(flags);
  LC_ASSIGN_OR_RETURN(const v1::Durability durability, ParseDurability(flags.durability));
  request.set_durability(durability);
  v1::Item* item = request.add_items();
  LC_ASSIGN_OR_RETURN(*item->mutable_id(), ParseItemId(flags.id));
  item->set_payload_json(flags.payload);
  if (flags.expected_sequence) item->set_expected_sequence(*flags.expected_sequence);
  if (flags.ttl_ms) item->set_ttl_ms(*flags.ttl_ms);
  request.set_model(flags.made_by);
  if (!flags.vector.empty() + !flags.image.empty() + !flags.text.empty() != 1) {
    return InvalidArgument("one of --vector, --image and --text must be given");
  }
  if (!flags.vector.empty()) {
    LC_ASSIGN_OR_RETURN(const std::vector<float> values, ParseVectorText(flags.vector));
    client::SetVector(values.data(), static_cast<int64_t>(values.size()), item->mutable_vector());
  } else if (!flags.text.empty()) {
    item->mutable_input()->set_text(flags.text);
  } else {
    LC_RETURN_IF_ERROR(SetImage(flags.image, item->mutable_input()));
  }
  LC_ASSIGN_OR_RETURN(const auto response, context.Call(&client::Client::Upsert, request));
  if (response.outdated_size() > 0) {
    return absl::AbortedError(StrCat("item ", flags.id, " was not written: its sequence is not --expected-sequence ",
                                     flags.expected_sequence.value_or(0)));
  }
  std::string warnings;
  for (const std::string& warning : response.warnings()) warnings += StrCat("warning: ", warning, "\n");
  context.Show({{"sequence", response.sequence()},
                {"generation", response.generation()},
                {"items", response.items()},
                {"durability", response.durability() == v1::DURABILITY_PROCESS ? "process" : "durable"},
                {"warnings", response.warnings()}},
               StrCat("wrote item ", flags.id, " by generation ", response.generation(), ", sequence ",
                      response.sequence(), "\n", warnings));
  return absl::OkStatus();
}

void AddUpsertFlags(CLI::App* app, UpsertFlags* flags) {
  AddCollectionArgument(app, &flags->collection);
  app->add_option("id", flags->id, kItemIdHelp)->required();
  app->add_option("--vector", flags->vector,
                  "Vector of the item, as the encoder gave it before the clip: 0.1,0.2,... or a JSON array");
  app->add_option("--image", flags->image, "PNG, JPEG or WebP file that the server embeds");
  app->add_option("--text", flags->text, "Text that the server embeds");
  app->add_option("--made-by", flags->made_by,
                  "Model that made the vector; another one than the generation's is refused");
  app->add_option("--payload", flags->payload, "Payload of the item: a JSON object");
  app->add_option("--generation", flags->generation, "Generation that embedded the vector; 0: the active one");
  app->add_flag("--same-content", flags->same_content, "Add another model's embedding of the stored content");
  app->add_flag("--keep-payload", flags->keep_payload,
                "Give a stored item new content, beside the payload and the time that it has");
  app->add_option("--expected-sequence", flags->expected_sequence,
                  "Sequence that the item must have, else nothing is written; 0: the item must not exist")
      ->check(CLI::NonNegativeNumber);
  AddTtl(app, "--ttl", &flags->ttl_ms, "Seconds after which the item expires");
  app->add_flag("--keep-input", flags->keep_input, "Keep the image or text, so that later generations can embed it");
  AddDurability(app, &flags->durability);
}

}  // namespace

void AddUpsert(CLI::App& root, Context& context) {
  AddCommands<UpsertFlags>(root, context,
                           {{"upsert", "Write one item (for many, see import)", &RunUpsert, &AddUpsertFlags}});
}

}  // namespace lightcone::cli
