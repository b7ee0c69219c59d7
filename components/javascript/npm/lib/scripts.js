'use strict';
// Runs the scripts of package.json.
const { spawnSync } = require('node:child_process');

const { manifest } = require('./manifest.js');

/** Returns the scripts of a project, by name; none without a project. */
function scripts(project) {
  const all = Object.entries(project?.content.scripts ?? {});
  // The object inherits nothing: `constructor` is a script only if package.json has it.
  return Object.assign(Object.create(null), Object.fromEntries(all.filter(([, command]) => typeof command === 'string')));
}

/** Runs a script with those before and after it, and returns its exit code. */
function run(tool, name, args) {
  const project = manifest();
  if (project === null) {
    console.error(`${tool} error no package.json in ${process.cwd()} or a folder above it`);
    return 1;
  }
  const known = scripts(project);
  if (name === undefined) {
    for (const [script, command] of Object.entries(known)) {
      console.log(`  ${script}\n    ${command}`);
    }
    return 0;
  }
  if (known[name] === undefined) {
    const names = Object.keys(known).join(', ') || 'none';
    console.error(`${tool} error Missing script: "${name}"; package.json has: ${names}`);
    return 1;
  }
  const own = args[0] === '--' ? args.slice(1) : args;
  const steps = [[`pre${name}`, []], [name, own], [`post${name}`, []]];
  for (const [step, words] of steps.filter(([step]) => known[step] !== undefined)) {
    const command = [known[step], ...words.map(quoted)].join(' ');
    console.log(`\n> ${project.content.name ?? ''}@${project.content.version ?? ''} ${step}\n> ${command}\n`);
    const env = { ...process.env, npm_lifecycle_event: step, npm_package_name: project.content.name ?? '' };
    const done = spawnSync('sh', ['-c', command], { cwd: project.folder, env, stdio: 'inherit' });
    if (done.error !== undefined) {
      console.error(`${tool} error ${done.error.message}`);
      return 1;
    }
    if (done.status !== 0) {
      return done.status ?? 1;
    }
  }
  return 0;
}

function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

module.exports = { run, scripts };
