// Scenarios, and checks inside them. A check never stops a scenario: all that differs is seen in one run.
import { isDeepStrictEqual } from 'node:util';

import { ANY } from '../differences.mjs';
import { Machine } from './machine.mjs';

const scenarios = [];

/** Declares a scenario of check `number` of the wire's list. */
export function scenario(number, name, run) {
  scenarios.push({ number, name, run });
}

/** What an object lacks of the required fields, and what it has beyond required and optional ones. */
export function shape(value, required, optional = []) {
  const has = Object.keys(value ?? {});
  return {
    missing: required.filter((key) => !has.includes(key)),
    extra: has.filter((key) => !required.includes(key) && !optional.includes(key)).sort(),
  };
}
export const EXACT = { missing: [], extra: [] };

/** Status and code of an answer, the way most rows state them. */
export const brief = (answer) => (answer.body?.code ? `${answer.status} ${answer.body.code}` : `${answer.status}`);

class Run {
  constructor(target, differences, report) {
    this.target = target;
    this.differences = differences;
    this.report = report;
    this.machines = [];
  }

  async machine(options) {
    const machine = await Machine.create(this.target.template, options);
    machine.storesLate = this.target.name === 'peer';
    this.machines.push(machine);
    return machine;
  }

  /** A machine with a running daemon. */
  async daemon(flags, { policy, ...life } = {}) {
    const machine = await this.machine({ policy });
    await machine.start(flags, life);
    return machine;
  }

  /**
   * One named check. `expected` holds for both daemons unless the list of differences says otherwise for this id; a value
   * that the list has for this side must be met exactly, so that a difference that is gone fails as well.
   */
  check(id, actual, expected) {
    if (this.report.some((row) => row.id === id)) throw new Error(`two checks are called ${id}`);
    const listed = this.differences[id];
    const wanted = listed && this.target.name in listed ? listed[this.target.name] : expected;
    const plain = actual === undefined ? undefined : JSON.parse(JSON.stringify(actual));
    this.report.push({ id, ok: wanted === ANY || isDeepStrictEqual(plain, wanted), actual: plain, wanted, listed: listed?.reason });
    if (listed) {
      const other = this.target.name === 'ours' ? 'peer' : 'ours';
      const there = other in listed ? listed[other] : expected;
      if (isDeepStrictEqual(there, wanted)) {
        this.report.push({ id: `${id} (difference)`, ok: false, actual: 'both sides expect the same', wanted: 'a difference' });
      }
    }
  }

  async close() {
    for (const machine of this.machines) await machine.close().catch((error) => console.error(`# ${error.message}`));
  }
}

/** Runs all scenarios against one daemon, `width` at a time. True when all is as expected. */
export async function runAll(target, differences, { only, width }) {
  const todo = scenarios.filter((item) => !only || only.test(`${item.number} ${item.name}`));
  const results = [];
  const began = Date.now();
  const queue = [...todo];
  const work = async () => {
    for (;;) {
      const item = queue.shift();
      if (!item) return;
      const report = [];
      const run = new Run(target, differences, report);
      const start = Date.now();
      try {
        await item.run(run);
      } catch (error) {
        report.push({ id: `${item.number} ${item.name}: goes to its end`, ok: false, actual: error.stack ?? String(error), wanted: 'no error' });
        if (process.env.CONFORMANCE_LOG) for (const machine of run.machines) console.log(machine.log().slice(-6000));
      }
      await run.close();
      results.push({ ...item, report, took: Date.now() - start });
      const bad = report.filter((row) => !row.ok);
      console.log(`# ${target.name} ${item.number} ${item.name}: ${report.length - bad.length}/${report.length}, ${Date.now() - start} ms`);
    }
  };
  await Promise.all(Array.from({ length: width }, work));
  results.sort((a, b) => a.number - b.number);
  const rows = results.flatMap((result) => result.report.map((row) => ({ ...row, number: result.number })));
  if (!only) {
    for (const id of Object.keys(differences)) {
      if (!rows.some((row) => row.id === id)) rows.push({ id, ok: false, actual: 'no check has this id', wanted: 'a check', number: 0 });
    }
  }
  for (const row of rows) {
    console.log(`${row.ok ? 'ok' : 'not ok'} ${target.name} ${row.id}${row.ok && row.listed ? ` # differs: ${row.listed}` : ''}`);
    if (row.ok) continue;
    console.log(`    wanted ${typeof row.wanted === 'string' ? row.wanted : JSON.stringify(row.wanted)}`);
    console.log(`    got    ${typeof row.actual === 'string' ? row.actual : JSON.stringify(row.actual)}`);
  }
  const numbers = [...new Set(results.map((result) => result.number))];
  for (const number of numbers) {
    const of = rows.filter((row) => row.number === number);
    console.log(`# ${target.name} check ${number}: ${of.filter((row) => row.ok).length} of ${of.length}`);
  }
  const failed = rows.filter((row) => !row.ok).length;
  console.log(`# ${target.name}: ${rows.length - failed} of ${rows.length} as expected, ${Math.round((Date.now() - began) / 1000)} s`);
  return failed === 0;
}
