// Where Holdpoint and qwen serve differ on purpose: `{ours?, peer?, reason}` by the id of a check. A side that is not
// given expects what the check itself says. A difference that is not here fails; so does one that does not occur.
export const differences = {
};
