// The page's files are modules, and have no package.json beside them to say so.
import { register } from 'node:module';

const hooks = `
export async function load(url, context, next) {
  return next(url, url.includes('/crates/server/web/') ? { ...context, format: 'module' } : context);
}`;
register(`data:text/javascript,${encodeURIComponent(hooks)}`);
