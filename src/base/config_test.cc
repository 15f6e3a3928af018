#include "base/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <random>

namespace geminga {
namespace {

using testing::HasSubstr;

std::string get(const std::vector<ConfigSetting>& settings, const std::string& key) {
  std::string value = "<none>";
  for (const auto& setting : settings) {
    if (setting.key == key) value = setting.value;
  }
  return value;
}

TEST(Properties, ReadsWhatJavaReads) {
  const auto settings = parse_properties(
                            "# comment\n! another\n\n  a = 1  \nb:2\r\nc three\nd=x\\\n   y\\\n z\n"
                            "e=tab\\there\\u00e9\nf\\=g=h\nempty=\nlast=no newline",
                            "t.conf")
                            .value();
  EXPECT_EQ(get(settings, "a"), "1");
  EXPECT_EQ(get(settings, "b"), "2");
  EXPECT_EQ(get(settings, "c"), "three");
  EXPECT_EQ(get(settings, "d"), "xyz");
  EXPECT_EQ(get(settings, "e"), "tab\there\xC3\xA9");
  EXPECT_EQ(get(settings, "f=g"), "h");
  EXPECT_EQ(get(settings, "empty"), "");
  EXPECT_EQ(get(settings, "last"), "no newline");
  EXPECT_EQ(settings.front().source, "t.conf:4");
}

TEST(Properties, RefusesBrokenEscapesWithTheLine) {
  EXPECT_THAT(parse_properties("a=1\nb=\\u12", "t.conf").status().message(), HasSubstr("t.conf:2"));
}

TEST(Properties, SurvivesAnyBytes) {
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string text(random() % 200, '\0');
    for (char& c : text) c = "\\=: \n\r#!u0aZ\t\xff"[random() % 14];
    if (auto settings = parse_properties(text, "x")) {
      BrokerConfig config;
      ConfigNotes notes;
      (void)apply_settings(config, *settings, notes);
    }
  }
}

TEST(Config, LaterSettingsWin) {
  BrokerConfig config;
  ConfigNotes notes;
  const char* environment[] = {"PATH=/bin", "PULSAR_PREFIX_maxMessageSize=2048", nullptr};
  auto settings =
      parse_properties("maxMessageSize=1024\nallowAutoTopicCreation=FALSE\n", "f").value();
  for (auto& setting : settings_of_environment(environment)) settings.push_back(setting);
  settings.push_back({"webServicePort", "18080", "--web-port"});
  ASSERT_TRUE(apply_settings(config, settings, notes).is_ok());
  EXPECT_EQ(config.max_message_size, 2048);
  EXPECT_FALSE(config.allow_auto_topic_creation);
  EXPECT_EQ(config.web_service_port, 18080);
}

TEST(Config, RefusesBadValuesNamingAllThatHelps) {
  const std::pair<const char*, const char*> cases[] = {
      {"maxMessageSize", "many"},         {"maxMessageSize", "12"},
      {"brokerServicePort", "65536"},     {"brokerServicePort", "-1"},
      {"journalSyncData", "yes"},         {"allowAutoTopicCreationType", "big"},
      {"keepAliveIntervalSeconds", "1 "}, {"defaultNumPartitions", "99999999999999999999"}};
  for (const auto& [key, value] : cases) {
    BrokerConfig config;
    ConfigNotes notes;
    const ConfigSetting setting{key, value, "my.conf:7"};
    const Status status = apply_settings(config, std::span(&setting, 1), notes);
    ASSERT_FALSE(status.is_ok()) << key;
    EXPECT_THAT(status.message(), testing::AllOf(HasSubstr("my.conf:7"), HasSubstr(key),
                                                 HasSubstr(value), HasSubstr("allowed: ")));
  }
}

TEST(Config, NamesKeysWithoutMeaningAndUnknownOnesOnce) {
  BrokerConfig config;
  ConfigNotes notes;
  const auto settings =
      parse_properties(
          "zookeeperServers=x\nzookeeperServers=y\nnoSuchKey=1\nnoSuchKey=2\nmaxMessageSize=\n",
          "f")
          .value();
  ASSERT_TRUE(apply_settings(config, settings, notes).is_ok());
  EXPECT_EQ(notes.without_meaning, std::vector<std::string>{"zookeeperServers"});
  ASSERT_EQ(notes.unknown.size(), 1U);
  EXPECT_EQ(notes.unknown[0].source, "f:3");
  EXPECT_EQ(config.max_message_size, 5242880);  // an empty value leaves the default
}

TEST(Config, ReadsSizesAndJvmMemory) {
  EXPECT_EQ(parse_size("512M").value(), 512U << 20);
  EXPECT_EQ(parse_size("2g").value(), 2ULL << 30);
  EXPECT_EQ(parse_size("64KiB").value(), 64U << 10);
  EXPECT_EQ(parse_size("1048576").value(), 1048576U);
  for (const char* bad : {"", "M", "12Q", "-1", "99999999999T", "1.5G"}) {
    EXPECT_FALSE(parse_size(bad).is_ok()) << bad;
  }
  EXPECT_EQ(memory_of_jvm_options("\"-Xms2g -Xmx1g -XX:MaxDirectMemorySize=512m\"").value(),
            (1ULL << 30) + (512U << 20));
  EXPECT_EQ(memory_of_jvm_options("-XX:+UseG1GC").value(), 0U);
  EXPECT_FALSE(memory_of_jvm_options("-Xmxlots").is_ok());
}

TEST(Config, ReferencePageIsUpToDate) {
  std::ifstream file(std::string(GEMINGA_SOURCE_DIR) + "/docs/reference/configuration.md");
  const std::string page((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_EQ(page, configuration_reference_markdown())
      << "write it anew: geminga standalone --print-config-reference > "
         "docs/reference/configuration.md";
}

}  // namespace
}  // namespace geminga
