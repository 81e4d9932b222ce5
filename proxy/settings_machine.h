/* proxy/settings_machine.h - do a settings file's paths, groups and addresses fit this machine?
 *
 * What can be told before anything starts: files and folders that are not there or that others can
 * change, a group that does not exist, a DNS server that no route leads to. What is not written is
 * not looked for.
 *
 * Ownership   arguments are borrowed for the call.
 * Blocking    file system calls; getgrnam(). No packet is sent.
 * Failure     each thing that does not fit is an error in @diags, at its place in the file.
 * Tests       tests/unit/proxy/test_settings_machine.c, tests/policy/settings-here
 */
#ifndef PROXY_SETTINGS_MACHINE_H
#define PROXY_SETTINGS_MACHINE_H

#include "conf/yaml.h"

/* @root may hold anything: what has not the form that the settings want is passed over. */
void settings_machine(const struct yaml_node *root, struct diags *diags);

#endif
