// The API document as TypeScript: `types/api.d.ts`, for `tsc` only.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const here = fileURLToPath(new URL('.', import.meta.url));
const { components, paths } = JSON.parse(readFileSync(`${here}/../../docs/openapi.json`, 'utf8'));

function type(schema) {
  if (schema === undefined || schema === true || Object.keys(schema).length === 0) return 'unknown';
  if (schema.$ref) return `components[${JSON.stringify(schema.$ref.split('/').at(-1))}]`;
  if ('const' in schema) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
  const several = schema.oneOf ?? schema.anyOf;
  if (several) return several.map(type).join(' | ');
  if (schema.allOf) return schema.allOf.map(type).join(' & ');
  if (Array.isArray(schema.type)) return schema.type.map((one) => type({ ...schema, type: one })).join(' | ');
  switch (schema.type) {
    case 'string': return 'string';
    case 'integer':
    case 'number': return 'number';
    case 'boolean': return 'boolean';
    case 'null': return 'null';
    case 'array': return `(${type(schema.items)})[]`;
    case 'object': {
      const fields = Object.entries(schema.properties ?? {}).map(([name, field]) => `${JSON.stringify(name)}${schema.required?.includes(name) ? '' : '?'}: ${type(field)}`);
      const more = schema.additionalProperties && schema.additionalProperties !== true ? [`[key: string]: ${type(schema.additionalProperties)}`] : [];
      return fields.length + more.length === 0 ? 'Record<string, unknown>' : `{ ${[...fields, ...more].join('; ')} }`;
    }
    default: return 'unknown';
  }
}

const lines = Object.entries(components.schemas).map(([name, schema]) => `  ${JSON.stringify(name)}: ${type(schema)};`);
const routes = Object.entries(paths).flatMap(([path, methods]) => Object.keys(methods).filter((method) => method !== 'parameters').map((method) => `  | ${JSON.stringify(`${method.toUpperCase()} ${path}`)}`));
mkdirSync(`${here}/types`, { recursive: true });
writeFileSync(`${here}/types/api.d.ts`, `// Made by types.mjs from docs/openapi.json.\nexport interface components {\n${lines.join('\n')}\n}\nexport type Route =\n${routes.join('\n')};\n`);
