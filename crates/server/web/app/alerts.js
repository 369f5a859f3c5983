// @ts-check
// H13: one alert for each question that arrives while the page is there, none for those that it finds, withdrawn when
// the question is gone.

/**
 * @returns {{update: (ids: readonly string[]) => {raise: string[], withdraw: string[]}}}
 */
export function createAlerts() {
  /** @type {Set<string> | undefined} */
  let known;
  /** @type {Set<string>} */
  const raised = new Set();
  return {
    update(ids) {
      const now = new Set(ids);
      const raise = known ? ids.filter((id) => !known?.has(id)) : [];
      const withdraw = [...raised].filter((id) => !now.has(id));
      known = new Set([...(known ?? []), ...now]);
      for (const id of raise) raised.add(id);
      for (const id of withdraw) raised.delete(id);
      return { raise, withdraw };
    },
  };
}
